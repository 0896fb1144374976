"""Fixtures for all tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

Install = Callable[..., Path]


@pytest.fixture
def install_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Lay down a distribution as pip would: its metadata, and modules by name."""
    before = set(sys.modules)

    def install(
        name: str, version: str = "1.0", *, entry_points: dict[str, str], **modules: str
    ) -> Path:
        site = tmp_path / f"site-{name}-{version}"
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{key} = {value}" for key, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[batchwright]", *lines, ""]))
        for module, source in modules.items():
            (site / f"{module}.py").write_text(dedent(source))
        monkeypatch.syspath_prepend(site)
        return site

    yield install
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]
