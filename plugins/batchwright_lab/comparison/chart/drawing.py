"""Pieces that charts have in common: scales of series, zoom, data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import altair as alt
from altair.utils import schemapi

from batchwright_lab.comparison.chart.series_style import DASHES

__all__ = [
    "HIDDEN",
    "LABEL",
    "MARK_SIZE",
    "NUM_TICKS",
    "STROKE",
    "as_dict",
    "colour_of",
    "dash_of",
    "fill_of",
    "interactive",
    "log_axis",
    "rounded",
    "rows_of",
    "shape_of",
]

HIDDEN: Final = "hidden"
"""Parameter of a chart that holds the names of series that it leaves out."""
STROKE: Final = 1.9
MARK_SIZE: Final = 52
LABEL: Final = (
    "(abs(datum.value) >= 10000 ? format(datum.value, '.3~s') : format(datum.value, '.4~r'))"
)
"""A short number, as an expression of Vega: 12,000 is 12k."""
_LEADING_DIGIT: Final = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
_MOST_DECADES: Final = 3
"""Beyond so many decades only powers of ten are written."""
NUM_TICKS: Final = 5
"""Values along a linear axis, about."""
_IS_ZOOMED: Final = "isValid(zoom.x) || isValid(zoom.y)"
"""Only then marks are cut at the ends of the axes: a whole mark lies on each end else."""
_ZOOM: Final = "wheel![event.ctrlKey || event.metaKey || event.shiftKey]"
"""The wheel alone scrolls the page."""


def colour_of(styles: Mapping[str, int]) -> alt.Color:
    """Return the colours of series; the theme says which they are."""
    return alt.Color("s:N", scale=alt.Scale(domain=list(styles)))


def fill_of(styles: Mapping[str, int]) -> alt.Fill:
    """Return the colours of bands; they are those of the series, and need no legend."""
    return alt.Fill("s:N", scale=alt.Scale(domain=list(styles)), legend=None)


def dash_of(styles: Mapping[str, int]) -> alt.StrokeDash:
    """Return the dashes of series."""
    dashes = [list(DASHES[index % len(DASHES)]) for index in styles.values()]
    scale = alt.Scale(domain=list(styles), range=dashes)
    return alt.StrokeDash("s:N", scale=scale, legend=None)


def shape_of(styles: Mapping[str, int]) -> alt.Shape:
    """Return the marks of series; the theme says which they are."""
    return alt.Shape("s:N", scale=alt.Scale(domain=list(styles)))


def interactive(chart: alt.LayerChart, *axes: Literal["x", "y"]) -> alt.LayerChart:
    """Add what answers a pointer, beside tooltips.

    Dragging moves the axes, the wheel with Ctrl or Shift zooms, a double click resets.

    Args:
        chart: The chart.
        axes: Those of numbers.
    """
    for layer in chart.layer:
        layer.mark.clip = alt.ExprRef(_IS_ZOOMED)
    zoom = alt.selection_interval(name="zoom", bind="scales", encodings=list(axes), zoom=_ZOOM)
    return (
        chart.transform_filter(f"indexof({HIDDEN}, datum.s) < 0")
        .add_params(alt.param(name=HIDDEN, value=[]), zoom)
        .properties(
            width="container", autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
        )
    )


def log_axis(values: Iterable[float]) -> dict[str, Any]:
    """Return properties of a logarithmic axis: few of its ticks have a label and a line.

    Args:
        values: Values that the axis holds, all positive.
    """
    found = list(values)
    decades = math.log10(max(found) / min(found)) if found else 0.0
    written = "1" if decades > _MOST_DECADES else "1,3" if decades > 1 else "1,2,5"
    is_written = f"indexof([{written}], {_LEADING_DIGIT}) >= 0"
    return {
        "labelExpr": f"{is_written} ? {LABEL} : ''",
        "gridOpacity": {"condition": {"test": is_written, "value": 1}, "value": 0},
        "tickOpacity": {"condition": {"test": is_written, "value": 1}, "value": 0.5},
    }


def as_dict(declare: Callable[[], alt.LayerChart | alt.ConcatChart]) -> dict[str, Any]:
    """Return a chart as Vega-Lite takes it, unchecked.

    Tests compare what is declared here with the schema; to do that for each chart of a
    page takes many times as long as to declare it.

    Args:
        declare: Makes the chart.
    """
    with schemapi.debug_mode(False):
        return declare().to_dict(validate=False)


def rows_of(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turn columns of series into rows; what is no list is the same in all rows of a series."""
    rows = []
    for line in lines:
        columns = {key: value for key, value in line.items() if isinstance(value, list)}
        same = {key: value for key, value in line.items() if key not in columns}
        rows += [
            {**same, **dict(zip(columns, values, strict=True))}
            for values in zip(*columns.values(), strict=True)
        ]
    return rows


def rounded(value: float) -> float | None:
    """Return a value with five digits, for more are not seen; None if it is not finite."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
