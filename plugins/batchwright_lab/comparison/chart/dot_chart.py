"""A chart of dots: one figure of several contenders, with its spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from attrs import frozen

from batchwright_lab.comparison.chart.axis import Axis, tick_label
from batchwright_lab.comparison.chart.line_chart import WIDTH
from batchwright_lab.comparison.chart.series_style import colour, mark
from batchwright_lab.comparison.chart.text import text

__all__ = ["Dot", "DotChart"]

_TOP, _ROW, _BOTTOM, _RIGHT = 28, 24, 36, 16
_CHARACTER = 6.3
_MOST_NAME = 150


@frozen
class Dot:
    """A value.

    Args:
        name: Whose.
        style: Which look it has.
        value: The value.
        least: Where its spread begins.
        most: Where its spread ends.
        note: What a pointer is told.
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
        name: What it shows, with its unit.
        x_name: What lies along the axis, with its unit.
        dots: The rows.
        most: What the axis must hold, so that several charts have the same.
    """

    name: str
    x_name: str
    dots: Sequence[Dot]
    most: float = 0.0

    def svg(self, number: int) -> str:
        """The chart.

        Args:
            number: Unique in a page.
        """
        longest = max((len(dot.name) for dot in self.dots), default=0)
        left = min(_MOST_NAME, 16 + _CHARACTER * longest)
        values = [value for dot in self.dots for value in (dot.value, dot.least, dot.most)]
        x = Axis.over([*values, self.most], left, WIDTH - _RIGHT, from_zero=True)
        height = _TOP + _ROW * len(self.dots) + _BOTTOM
        body = "".join([*self._grid(x, height), *(self._row(i, x) for i in range(len(self.dots)))])
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-labelledby="c{number}"><title id="c{number}">{escape(self.name)}: '
            f"{escape(', '.join(dot.note for dot in self.dots))}</title>"
            f"{text(6, 15, self.name, anchor='start', look='name')}{body}</svg>"
        )

    def _grid(self, x: Axis, height: int) -> Iterator[str]:
        bottom = height - _BOTTOM
        for tick in x.ticks():
            yield f'<path class="grid" d="M{x.at(tick):.1f} {_TOP - 4}V{bottom}"/>'
            yield text(x.at(tick), bottom + 14, tick_label(tick))
        yield text((x.start + x.stop) / 2, height - 6, self.x_name)

    def _row(self, index: int, x: Axis) -> str:
        dot = self.dots[index]
        y = _TOP + _ROW * (index + 0.5)
        stroke, at = colour(dot.style), x.at(dot.value)
        return (
            f"<g><title>{escape(dot.note)}</title>"
            f"{text(x.start - 8, y + 4, dot.name, anchor='end', look='label')}"
            f'<path class="whisker" stroke="{stroke}" '
            f'd="M{x.at(dot.least):.1f} {y:.1f}H{x.at(dot.most):.1f}"/>'
            f'<path class="mark" fill="var(--paper)" stroke="{stroke}" '
            f'd="{mark(dot.style, at, y)}"/></g>'
        )
