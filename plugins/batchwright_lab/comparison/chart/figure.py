"""A figure that stands alone: charts side by side with a legend, as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt
import vl_convert
from attrs import frozen

from batchwright_lab.comparison.chart.drawing import as_dict, rows_of
from batchwright_lab.comparison.chart.line_chart import LineChart
from batchwright_lab.comparison.chart.theme import Theme

__all__ = ["Figure"]

_PER_ROW: Final = 2
_WIDTH: Final = 300
_PADDING: Final = 12
_ZOOM: Final = 2.0
"""Pixels a unit."""


@frozen
class Figure:
    """Charts in rows of two, below them the legend. Colours are literal, so any viewer has them.

    Args:
        charts: The charts.
        styles: Looks of the series, by name.
        title: Text alternative.
    """

    charts: Sequence[LineChart]
    styles: Mapping[str, int]
    title: str

    def svg(self, theme: Theme) -> str:
        """Return the figure as SVG."""
        return vl_convert.vegalite_to_svg(self._spec(theme))

    def png(self, theme: Theme) -> bytes:
        """Return the figure as pixels, two a unit."""
        return vl_convert.vegalite_to_png(self._spec(theme), scale=_ZOOM)

    def pdf(self, theme: Theme) -> bytes:
        """Return the figure as a page of PDF."""
        return vl_convert.vegalite_to_pdf(self._spec(theme))

    def _spec(self, theme: Theme) -> dict[str, Any]:
        return {
            **as_dict(self._declare),
            "datasets": {
                f"chart-{index}": rows_of(chart.columns())
                for index, chart in enumerate(self.charts)
            },
            "config": theme.config(self.styles.values()),
        }

    def _declare(self) -> alt.ConcatChart:
        charts = [
            chart.drawn(alt.NamedData(f"chart-{i}"), self.styles).properties(width=_WIDTH)
            for i, chart in enumerate(self.charts)
        ]
        figure: alt.ConcatChart = (
            alt.concat(*charts, columns=_PER_ROW, spacing=24)
            .resolve_scale(color="shared", shape="shared")
            .properties(description=self.title, padding=_PADDING)
        )
        return figure
