"""A picture that stands alone: charts side by side with a legend, in one SVG file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from batchwright_lab.comparison.chart.line_chart import HEIGHT, WIDTH, LineChart
from batchwright_lab.comparison.chart.series_style import CHART_CSS, colour, dashes, mark
from batchwright_lab.comparison.chart.text import text

__all__ = ["legend_entry", "picture"]

_PER_ROW: Final = 2
_LEGEND: Final = 30
_SWATCH: Final = 30
_CHARACTER: Final = 6.6


def legend_entry(style: int, name: str) -> str:
    """A line with its mark and its name, as SVG of its own."""
    return (
        f'<svg class="chart swatch" viewBox="0 0 {_SWATCH} 12" aria-hidden="true">'
        f"{_swatch(style, 0, 6)}</svg>{escape(name)}"
    )


def picture(charts: Sequence[LineChart], names: Sequence[tuple[int, str]], title: str) -> str:
    """Charts in rows of two, below them who is who.

    Args:
        charts: The charts.
        names: Style and name of each series.
        title: What it shows, for those who do not see it.
    """
    num_rows = -(-len(charts) // _PER_ROW)
    width, height = _PER_ROW * WIDTH, num_rows * HEIGHT + _LEGEND
    placed = "".join(
        f'<g transform="translate({index % _PER_ROW * WIDTH} {index // _PER_ROW * HEIGHT})">'
        f"{_inner(chart.svg(index))}</g>"
        for index, chart in enumerate(charts)
    )
    legend = "".join(_legend(names, width, height - _LEGEND / 2))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img"><title>{escape(title)}</title>'
        f"<style>{CHART_CSS}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="var(--paper)"/>'
        f"{placed}{legend}</svg>\n"
    )


def _inner(svg: str) -> str:
    """A chart without its outermost element."""
    return svg[svg.index(">") + 1 : svg.rindex("</svg>")]


def _legend(names: Sequence[tuple[int, str]], width: float, y: float) -> Iterator[str]:
    widths = [_SWATCH + 8 + _CHARACTER * len(name) + 18 for _, name in names]
    x = max(8.0, (width - sum(widths)) / 2)
    for (style, name), taken in zip(names, widths, strict=True):
        yield _swatch(style, x, y)
        yield text(x + _SWATCH + 6, y + 4, name, anchor="start", look="label")
        x += taken


def _swatch(style: int, x: float, y: float) -> str:
    stroke, middle = colour(style), x + _SWATCH / 2
    return (
        f'<path class="curve" stroke="{stroke}"{dashes(style)} d="M{x:.1f} {y:.1f}h{_SWATCH}"/>'
        f'<path class="mark" fill="var(--paper)" stroke="{stroke}" d="{mark(style, middle, y)}"/>'
    )
