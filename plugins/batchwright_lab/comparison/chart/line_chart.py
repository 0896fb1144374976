"""A chart of lines: a figure against a rate or an option, a distribution, something over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import altair as alt
from attrs import frozen

from batchwright_lab.comparison.chart.drawing import (
    MARK_SIZE,
    NUM_TICKS,
    STROKE,
    colour_of,
    dash_of,
    fill_of,
    interactive,
    log_axis,
    rounded,
    shape_of,
)

__all__ = ["HEIGHT", "Line", "LineChart", "spans_decades"]

HEIGHT: Final = 168
_INSET: Final = 8
"""Room for marks at both ends of the x axis (px)."""
_LOG_FROM: Final = 25.0
"""Ratio of greatest to least value from which an axis is logarithmic."""
_NUM_MARKS: Final = 5
_NUM_TOLD: Final = 60
"""Points of a line without notes that a pointer is told of."""


def spans_decades(values: Iterable[float], ratio: float = _LOG_FROM) -> bool:
    """Tell if values are all positive, and differ by more than a ratio."""
    found = list(values)
    return bool(found) and min(found) > 0 and max(found) / min(found) > ratio


@frozen
class Line:
    """A series.

    Args:
        name: Its name.
        style: Index of its look.
        points: In order of x; an x that is a text is a place on an axis of words.
        band: Least and greatest y at each point; empty: none.
        notes: Text that a pointer is told at each point; empty: the line has but a few marks.
        is_step: True if a value holds until the next point.
    """

    name: str
    style: int
    points: Sequence[tuple[float | str, float]]
    band: Sequence[tuple[float, float]] = ()
    notes: Sequence[str] = ()
    is_step: bool = False

    def columns(self, *, log_x: bool) -> dict[str, Any]:
        """Return all of it for JSON, in columns: a row a point.

        In column ``m`` 2 is a point with a mark, 1 one that a pointer is told of.
        """
        found: dict[str, Any] = {
            "s": self.name,
            "x": [x if isinstance(x, str) else rounded(x) for x, _ in self.points],
            "y": [rounded(y) for _, y in self.points],
        }
        if self.band:
            found["l"] = [rounded(low) for low, _ in self.band]
            found["h"] = [rounded(high) for _, high in self.band]
        if self.notes:
            return {**found, "n": list(self.notes)}
        marked = set(self._marked(log_x))
        every = max(1, len(self.points) // _NUM_TOLD)
        told = (2 if i in marked else int(i % every == 0) for i in range(len(self.points)))
        return {**found, "m": list(told)}

    def _marked(self, log_x: bool) -> Iterator[int]:
        """Indices of a few points along the line, other ones for each style."""
        scale = math.log if log_x else float
        places = [scale(x) for x, _ in self.points if not isinstance(x, str)]
        for number in range(_NUM_MARKS if places else 0):
            share = (number + 0.2 + 0.11 * (self.style % 6)) / _NUM_MARKS
            target = places[0] + share * (places[-1] - places[0])
            yield min(range(len(places)), key=lambda i: abs(places[i] - target))


@frozen
class LineChart:
    """Lines over common axes.

    Args:
        name: Name of the figure, with its unit.
        x_name: Name of the x axis, with its unit.
        lines: The series.
        log_x: True if x is logarithmic.
        y_may_be_log: True if y is logarithmic if its values differ by much.
        y_top: Greatest y; None: that of the lines.
        x_ticks: Values to write along the x axis; None: round ones.
    """

    name: str
    x_name: str
    lines: Sequence[Line]
    log_x: bool = False
    y_may_be_log: bool = False
    y_top: float | None = None
    x_ticks: Sequence[float | str] | None = None

    @property
    def description(self) -> str:
        """Text for screen readers."""
        return f"{self.name} against {self.x_name}: {', '.join(line.name for line in self.lines)}"

    @property
    def title(self) -> str:
        """Text above the chart."""
        return f"{self.name} (logarithmic)" if self._log_y else self.name

    def columns(self) -> list[dict[str, Any]]:
        """Return its data for JSON, line by line."""
        return [line.columns(log_x=self.log_x) for line in self.lines]

    def drawn(self, data: Any, styles: Mapping[str, int]) -> alt.LayerChart:
        """Declare the chart.

        Args:
            data: See ``rows_of``.
            styles: Looks of all series of a page or a figure, by name.
        """
        base = alt.Chart(data).encode(x=self._x(), color=colour_of(styles))
        curve = base.mark_line(
            strokeWidth=STROKE,
            strokeJoin="round",
            interpolate="step-after" if any(line.is_step for line in self.lines) else "linear",
        ).encode(y=self._y("y"), strokeDash=dash_of(styles))
        layers = [curve]
        if any(len(line.band) > 1 for line in self.lines):
            band = alt.Chart(data).mark_area(opacity=0.13).encode(
                x=self._x(), y=self._y("l"), y2="h:Q", fill=fill_of(styles)
            )  # fmt: skip
            layers.insert(0, band)
        marks = base.mark_point(style="paper", size=MARK_SIZE, opacity=1).encode(
            y=self._y("y"), shape=shape_of(styles)
        )
        if self._has_notes:
            marks = marks.encode(tooltip=self._tooltip(alt.Tooltip("n:N", title=self.name)))
        else:
            marks = marks.transform_filter("datum.m == 2")
        drawn: alt.LayerChart = (
            alt.layer(*layers, marks)
            .resolve_scale(fill="independent", strokeDash="independent")
            .properties(title=self.title, description=self.description, height=HEIGHT)
        )
        return drawn

    def interactive(self, data: Any, styles: Mapping[str, int]) -> alt.LayerChart:
        """Declare the chart with what answers a pointer: tooltips, zoom, series that hide."""
        drawn = self.drawn(data, styles)
        if not self._has_notes:
            y = alt.Tooltip("y:Q", title=self.name, format=".4~g")
            told = alt.Chart(data).mark_point(size=130, opacity=0, filled=True).encode(
                x=self._x(), y=self._y("y"), tooltip=self._tooltip(y)
            )  # fmt: skip
            drawn.layer.append(told.transform_filter("datum.m > 0"))
        return interactive(drawn, "y") if self._has_words else interactive(drawn, "x", "y")

    def _x(self) -> alt.X:
        if self._has_words:
            axis = alt.Axis(title=self.x_name, labelAngle=0, labelExpr="datum.label")
            scale = alt.Scale(type="point", padding=0.3)
            return alt.X("x:O", axis=axis, scale=scale, sort=[str(x) for x in self.x_ticks or ()])
        look: dict[str, Any] = {}
        if self.x_ticks is not None:
            look = {"values": list(self.x_ticks)}
        elif self.log_x:
            look = log_axis(x for x in self._xs() if not isinstance(x, str))
        xs = [x for x in (*(self.x_ticks or ()), *self._xs()) if not isinstance(x, str)]
        scale = alt.Scale(
            type="log" if self.log_x else "linear",
            domain=[min(xs, default=0), max(xs, default=1)],
            nice=False,
            padding=_INSET,
        )
        return alt.X("x:Q", axis=alt.Axis(title=self.x_name, grid=False, **look), scale=scale)

    def _y(self, column: str) -> alt.Y:
        look: dict[str, Any] = {}
        if self._log_y:
            scale = alt.Scale(type="log")
            look = log_axis(self._ys())
        elif self.y_top is not None:
            scale = alt.Scale(domain=[0, self.y_top])
        else:
            scale = alt.Scale(zero=True, nice=NUM_TICKS)
        return alt.Y(f"{column}:Q", axis=alt.Axis(title=None, **look), scale=scale)

    def _xs(self) -> list[float | str]:
        return [x for line in self.lines for x, _ in line.points]

    def _ys(self) -> list[float]:
        ys = [y for line in self.lines for _, y in line.points]
        return ys + [y for line in self.lines for pair in line.band for y in pair]

    @property
    def _log_y(self) -> bool:
        return self.y_may_be_log and spans_decades(self._ys())

    @property
    def _has_notes(self) -> bool:
        return all(line.notes for line in self.lines)

    @property
    def _has_words(self) -> bool:
        """True if the x axis has words."""
        return any(isinstance(x, str) for x in self._xs())

    def _tooltip(self, y: alt.Tooltip) -> list[alt.Tooltip]:
        if self._has_words:
            x = alt.Tooltip("x:N", title=self.x_name)
        else:
            x = alt.Tooltip("x:Q", title=self.x_name, format=".4~g")
        return [alt.Tooltip("s:N", title="policy"), x, y]
