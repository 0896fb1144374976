"""Colours of charts: light and dark ones for files, names of the page's for the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from attrs import frozen

from batchwright_lab.comparison.chart.drawing import LABEL, NUM_TICKS
from batchwright_lab.comparison.chart.series_style import DARK, LIGHT, MARKS

__all__ = ["DARK_THEME", "LIGHT_THEME", "PAGE_THEME", "Theme"]

_PAGE_FONTS: Final = 'system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif'
_FILE_FONTS: Final = "Liberation Sans,Arial,Helvetica,DejaVu Sans,sans-serif"
"""The first is built into what renders the files: widths are the same on every machine."""


@frozen
class Theme:
    """Colours.

    Args:
        series: One a series, in order.
        ink: That of names.
        soft: That of labels.
        line: That of the grid.
        paper: That behind everything.
        fonts: Families, the first that is there.
    """

    series: Sequence[str]
    ink: str
    soft: str
    line: str
    paper: str
    fonts: str = _FILE_FONTS

    def css(self) -> str:
        """Return the colours under the names by which a page calls them."""
        named = {"ink": self.ink, "soft": self.soft, "line": self.line, "paper": self.paper}
        named |= {f"s{index}": colour for index, colour in enumerate(self.series)}
        return "".join(f"--{name}:{colour};" for name, colour in named.items())

    def config(self, styles: Iterable[int]) -> dict[str, Any]:
        """Return the configuration of Vega-Lite charts in these colours.

        Args:
            styles: Looks of the series, in their order.
        """
        looks = list(styles)
        return {
            "background": self.paper,
            "font": self.fonts,
            "view": {"stroke": None},
            "range": {
                "category": [self.series[index % len(self.series)] for index in looks],
                "symbol": [MARKS[index % len(MARKS)] for index in looks],
            },
            "style": {"paper": {"fill": self.paper}},
            "axis": {
                "labelColor": self.soft,
                "titleColor": self.soft,
                "titleFontWeight": "normal",
                "labelFontSize": 11,
                "titleFontSize": 11,
                "gridColor": self.line,
                "domainColor": self.line,
                "tickColor": self.line,
                "labelExpr": LABEL,
                "labelOverlap": "greedy",
                "labelSeparation": 8,
            },
            "axisX": {"tickSize": 4, "tickCount": NUM_TICKS},
            "axisY": {"domain": False, "ticks": False, "labelPadding": 6, "minExtent": 34,
                      "tickCount": NUM_TICKS},
            "title": {"color": self.ink, "fontSize": 12.5, "fontWeight": 600, "offset": 10,
                      "anchor": "start", "frame": "group", "dx": -38},
            "legend": {"labelColor": self.ink, "labelFontSize": 11.5, "title": None,
                       "orient": "bottom", "symbolSize": 90, "symbolStrokeWidth": 1.9,
                       "symbolFillColor": self.paper, "symbolDash": [1, 0],
                       "columnPadding": 22},
        }  # fmt: skip


LIGHT_THEME: Final = Theme(LIGHT, "#1c1f24", "#5b626d", "#d9dde3", "#ffffff")
DARK_THEME: Final = Theme(DARK, "#e8eaed", "#a2a9b4", "#3a404a", "#15181d")
PAGE_THEME: Final = Theme(
    [f"var(--s{index})" for index in range(len(LIGHT))],
    "var(--ink)",
    "var(--soft)",
    "var(--line)",
    "var(--paper)",
    _PAGE_FONTS,
)
"""Names of colours that the page defines: charts follow it from light to dark and to paper."""
