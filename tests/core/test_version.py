"""The version is the same wherever it is written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import batchwright
from batchwright.version import VERSION


def test_version_agrees_with_the_distribution():
    pyproject = Path(__file__).parents[2] / "pyproject.toml"

    assert tomllib.loads(pyproject.read_text())["project"]["version"] == VERSION
    assert batchwright.__version__ == VERSION
