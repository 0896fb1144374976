"""A chart of lines: a figure against a rate, a distribution, something over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from attrs import frozen

from batchwright_lab.comparison.chart.axis import Axis, tick_label
from batchwright_lab.comparison.chart.series_style import colour, dashes, mark
from batchwright_lab.comparison.chart.text import text

__all__ = ["HEIGHT", "WIDTH", "Line", "LineChart"]

WIDTH: Final = 360
HEIGHT: Final = 236
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 30, 38
_INSET = 8
"""Room for marks at both ends of the x axis (px)."""
_LOG_FROM: Final = 25.0
"""Ratio of greatest to least value from which an axis is logarithmic."""
_NUM_MARKS: Final = 5


@frozen
class Line:
    """A series.

    Args:
        name: What it is called.
        style: Which look it has.
        points: In order of x.
        band: Least and greatest y at each point; empty: none.
        notes: What a pointer is told at each point; empty: the line has but a few marks.
        is_step: Whether a value holds until the next point.
    """

    name: str
    style: int
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = ()
    notes: Sequence[str] = ()
    is_step: bool = False


@frozen
class LineChart:
    """Lines over common axes.

    Args:
        name: What it shows, with its unit.
        x_name: What lies along the x axis, with its unit.
        lines: The series.
        log_x: Whether x is logarithmic.
        y_may_be_log: Whether y is logarithmic if its values differ by much.
        y_top: Greatest y; None: that of the lines.
        x_ticks: Values to write along the x axis; None: round ones.
    """

    name: str
    x_name: str
    lines: Sequence[Line]
    log_x: bool = False
    y_may_be_log: bool = False
    y_top: float | None = None
    x_ticks: Sequence[float] | None = None

    def svg(self, number: int) -> str:
        """The chart.

        Args:
            number: Unique in a page.
        """
        x, y = self._axes()
        body = "".join(
            [
                *self._grid(x, y),
                *self._bands(x, y),
                *(self._curve(line, x, y) for line in self.lines),
            ]
        )
        names = ", ".join(line.name for line in self.lines)
        scale = " (logarithmic)" if y.is_log else ""
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-labelledby="c{number}"><title id="c{number}">{escape(self.name)} against '
            f"{escape(self.x_name)}: {escape(names)}</title>"
            f"{text(6, 15, self.name + scale, anchor='start', look='name')}{body}</svg>"
        )

    def _axes(self) -> tuple[Axis, Axis]:
        xs = [*(self.x_ticks or ()), *(x for line in self.lines for x, _ in line.points)]
        ys = [y for line in self.lines for _, y in line.points]
        ys += [y for line in self.lines for pair in line.band for y in pair]
        positive = [y for y in ys if y > 0]
        is_log = self.y_may_be_log and len(positive) == len(ys) > 0
        is_log = is_log and max(positive) / min(positive) > _LOG_FROM
        if self.y_top is not None:
            ys.append(self.y_top)
        return (
            Axis.over(xs, LEFT + _INSET, WIDTH - RIGHT - _INSET, is_log=self.log_x),
            Axis.over(ys, HEIGHT - BOTTOM, TOP, is_log=is_log, from_zero=True),
        )

    def _grid(self, x: Axis, y: Axis) -> Iterator[str]:
        bottom = HEIGHT - BOTTOM
        for tick in y.ticks():
            at = y.at(tick)
            yield f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
            yield text(LEFT - 6, at + 4, tick_label(tick), anchor="end")
        for tick in x.ticks() if self.x_ticks is None else self.x_ticks:
            yield f'<path class="grid" d="M{x.at(tick):.1f} {bottom}v4"/>'
            yield text(x.at(tick), bottom + 16, tick_label(tick))
        yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self.x_name)

    def _bands(self, x: Axis, y: Axis) -> Iterator[str]:
        for line in self.lines:
            if len(line.band) < 2:
                continue
            columns = [
                (x.at(px), y.at(low), y.at(high))
                for (px, _), (low, high) in zip(line.points, line.band, strict=True)
            ]
            upper = [f"{px:.1f} {high:.1f}" for px, _, high in columns]
            lower = [f"{px:.1f} {low:.1f}" for px, low, _ in reversed(columns)]
            path = "L".join([*upper, *lower])
            yield f'<path class="band" fill="{colour(line.style)}" d="M{path}z"/>'

    def _curve(self, line: Line, x: Axis, y: Axis) -> str:
        places = [(x.at(px), y.at(py)) for px, py in line.points]
        if not places:
            return ""
        stroke = colour(line.style)
        marks = "".join(_marks(line, places, stroke))
        return (
            f'<g><path class="curve" stroke="{stroke}"{dashes(line.style)} '
            f'd="{_path(places, is_step=line.is_step)}"/>{marks}</g>'
        )


def _path(places: Sequence[tuple[float, float]], *, is_step: bool) -> str:
    """A path through points, without those that would not be seen."""
    first, *rest = places
    pieces = [f"M{first[0]:.1f} {first[1]:.1f}"]
    last = first
    for px, py in rest:
        if abs(px - last[0]) < 0.3 and abs(py - last[1]) < 0.3:
            continue
        pieces.append(f"H{px:.1f}V{py:.1f}" if is_step else f"L{px:.1f} {py:.1f}")
        last = px, py
    return "".join(pieces)


def _marks(line: Line, places: Sequence[tuple[float, float]], stroke: str) -> Iterator[str]:
    """A mark at each point that has a note; else at a few places, others for each style."""
    if line.notes:
        for (px, py), note in zip(places, line.notes, strict=True):
            yield _mark(line.style, px, py, stroke, f"{line.name}: {note}")
        return
    for number in range(_NUM_MARKS):
        share = (number + 0.2 + 0.11 * (line.style % 6)) / _NUM_MARKS
        target = places[0][0] + share * (places[-1][0] - places[0][0])
        px, py = min(places, key=lambda place: abs(place[0] - target))
        yield _mark(line.style, px, py, stroke, line.name)


def _mark(style: int, x: float, y: float, stroke: str, note: str) -> str:
    return (
        f'<path class="mark" fill="var(--paper)" stroke="{stroke}" d="{mark(style, x, y)}">'
        f"<title>{escape(note)}</title></path>"
    )
