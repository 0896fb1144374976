"""A chart of dots: one figure of several contenders, with its spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt
from attrs import frozen

from batchwright_lab.comparison.chart.drawing import (
    MARK_SIZE,
    NUM_TICKS,
    STROKE,
    colour_of,
    interactive,
    rounded,
    shape_of,
)

__all__ = ["Dot", "DotChart"]

_ROW: Final = 24
_MOST_NAME: Final = 150


@frozen
class Dot:
    """A value.

    Args:
        name: Name of the contender.
        style: Index of its look.
        value: The value.
        least: Least value of its spread.
        most: Greatest value of its spread.
        note: Text that a pointer is told.
    """

    name: str
    style: int
    value: float
    least: float
    most: float
    note: str


@frozen
class DotChart:
    """A row for each contender.

    Args:
        name: Name of the figure, with its unit.
        x_name: Name of the axis, with its unit.
        dots: The rows.
        most: Value that the axis must hold, so that several charts have the same.
    """

    name: str
    x_name: str
    dots: Sequence[Dot]
    most: float = 0.0

    @property
    def description(self) -> str:
        """Text alternative of the chart."""
        return f"{self.name}: {', '.join(f'{dot.name}: {dot.note}' for dot in self.dots)}"

    def columns(self) -> list[dict[str, Any]]:
        """Return its data for JSON, row by row."""
        return [
            {
                "s": dot.name,
                "x": [rounded(dot.value)],
                "l": [rounded(dot.least)],
                "h": [rounded(dot.most)],
                "n": [dot.note],
            }
            for dot in self.dots
        ]

    def drawn(self, data: Any, styles: Mapping[str, int]) -> alt.LayerChart:
        """Declare the chart.

        Args:
            data: See ``rows_of``.
            styles: Looks of all series of a page or a figure, by name.
        """
        axis = alt.Axis(title=None, labelExpr="datum.label", labelLimit=_MOST_NAME, grid=False)
        most = max([self.most, *(v for dot in self.dots for v in (dot.value, dot.most))])
        scale = alt.Scale(domain=[0, most or 1], nice=NUM_TICKS)
        base = alt.Chart(data).encode(
            y=alt.Y("s:N", axis=axis, sort=[dot.name for dot in self.dots]),
            color=colour_of(styles),
            tooltip=[alt.Tooltip("s:N", title="policy"), alt.Tooltip("n:N", title=self.name)],
        )
        whisker = base.mark_rule(clip=True, strokeWidth=STROKE, strokeCap="round").encode(
            x=alt.X("l:Q", axis=alt.Axis(title=self.x_name, grid=True), scale=scale), x2="h:Q"
        )
        mark = base.mark_point(style="paper", clip=True, size=MARK_SIZE, opacity=1).encode(
            x=alt.X("x:Q", scale=scale), shape=shape_of(styles)
        )
        return alt.layer(whisker, mark).properties(
            title=self.name, description=self.description, height=alt.Step(_ROW)
        )

    def interactive(self, data: Any, styles: Mapping[str, int]) -> alt.LayerChart:
        """Declare the chart with what answers a pointer: tooltips, zoom, series that hide."""
        return interactive(self.drawn(data, styles), ["x"])
