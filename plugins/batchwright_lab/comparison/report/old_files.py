"""Removes the page and the figures of an earlier comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from batchwright_lab.comparison.report.setup import REPORT

__all__ = ["remove_old_files"]

_FIGURES: Final = ("figure", "figure-dark", "figure-[0-9]*", "figure-along-[0-9]*")
_FORMATS: Final = ("svg", "png", "pdf")


def remove_old_files(folder: Path) -> None:
    """Remove them: they would show other figures than the tables beside them."""
    old = [folder / REPORT]
    for name in _FIGURES:
        for suffix in _FORMATS:
            old += folder.glob(f"{name}.{suffix}")
    for path in old:
        path.unlink(missing_ok=True)
