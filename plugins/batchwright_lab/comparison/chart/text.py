"""Words in a chart."""

from __future__ import annotations

from html import escape

__all__ = ["text"]


def text(x: float, y: float, words: str, *, anchor: str = "middle", look: str = "") -> str:
    """Words whose middle, start or end is at a point of their base line.

    Args:
        x: Coordinate (px).
        y: Coordinate (px).
        words: Plain text.
        anchor: ``start``, ``middle`` or ``end``.
        look: ``name`` or ``label``; empty: soft.
    """
    of_class = f' class="{look}"' if look else ""
    return f'<text{of_class} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
