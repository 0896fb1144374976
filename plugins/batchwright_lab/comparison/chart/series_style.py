"""The look of series: colour, dashes and mark, each enough to tell one from another."""

from __future__ import annotations

from typing import Final

__all__ = ["DARK", "DASHES", "LIGHT", "MARKS", "dashes", "mark"]

LIGHT: Final = (
    "#0b6bb0", "#c4500c", "#087f5b", "#a3348a", "#8a6100", "#3b3f46", "#5f4bb6", "#b3261e",
)  # fmt: skip
DARK: Final = (
    "#5fb2f2", "#ff9a5c", "#46cfa0", "#e58fd0", "#e8b84a", "#c5cad3", "#a99bf5", "#ff8a80",
)  # fmt: skip
DASHES: Final = (
    (1, 0), (7, 3), (2, 2.5), (9, 3, 2, 3), (12, 4), (4, 2, 1, 2), (1, 4), (6, 2, 2, 2, 2, 2),
)  # fmt: skip
"""Lengths of dashes and gaps (px); the first line is solid."""
MARKS: Final = (
    "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0 -1 0Z",
    "M-.9 -.9H.9V.9H-.9Z",
    "M0 -1L1 1H-1Z",
    "M0 -1.1L1.1 0L0 1.1L-1.1 0Z",
    "M0 1L1 -1H-1Z",
    "M-1 -1L1 1M1 -1L-1 1",
    "M0 -1.2V1.2M-1.2 0H1.2",
    "M-1 -1L1 0L-1 1Z",
)
"""Outlines around the origin, of radius 1."""


def dashes(index: int, radius: float) -> str:
    """Return ``stroke-dasharray`` of a series.

    Args:
        index: Index of the series.
        radius: That of its mark (px), which is the unit.
    """
    return " ".join(f"{length / radius:.2g}" for length in DASHES[index % len(DASHES)])


def mark(index: int) -> str:
    """Return the outline of a series' mark, of radius 1."""
    return MARKS[index % len(MARKS)]
