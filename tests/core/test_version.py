"""The version stands in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

import batchwright
from batchwright.version import VERSION


def test_distribution_takes_its_version_from_the_package() -> None:
    core = pytest.importorskip("hatchling.metadata.core")
    plugins = pytest.importorskip("hatchling.plugin.manager").PluginManager()
    root = str(Path(__file__).parents[2])

    assert core.ProjectMetadata(root, plugins).version == VERSION
    assert batchwright.__version__ == VERSION
