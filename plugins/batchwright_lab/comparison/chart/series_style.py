"""How series look: colour, dashes and mark, each enough to tell one from another."""

from __future__ import annotations

from typing import Final

__all__ = ["CHART_CSS", "FONTS", "colour", "dashes", "mark"]

_LIGHT: Final = (
    "#0b6bb0", "#c4500c", "#087f5b", "#a3348a", "#8a6100", "#3b3f46", "#5f4bb6", "#b3261e",
)  # fmt: skip
_DARK: Final = (
    "#5fb2f2", "#ff9a5c", "#46cfa0", "#e58fd0", "#e8b84a", "#c5cad3", "#a99bf5", "#ff8a80",
)  # fmt: skip
_DASHES: Final = ("", "7 3", "2 2.5", "9 3 2 3", "12 4", "4 2 1 2", "1 4", "6 2 2 2 2 2")
_R: Final = 3.6
_MARKS: Final = (
    "M{l} {y}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z",
    "M{l} {t}H{e}V{b}H{l}z",
    "M{x} {t}L{e} {b}H{l}z",
    "M{x} {t}L{e} {y}L{x} {b}L{l} {y}z",
    "M{x} {b}L{e} {t}H{l}z",
    "M{l} {t}L{e} {b}M{e} {t}L{l} {b}",
    "M{x} {t}V{b}M{l} {y}H{e}",
    "M{l} {t}L{e} {y}L{l} {b}z",
)


def colour(index: int) -> str:
    """The CSS value of a series' colour."""
    return f"var(--s{index % len(_LIGHT)})"


def dashes(index: int) -> str:
    """``stroke-dasharray`` of a series, as an attribute; empty for the first, which is solid."""
    found = _DASHES[index % len(_DASHES)]
    return f' stroke-dasharray="{found}"' if found else ""


def mark(index: int, x: float, y: float) -> str:
    """The path of a series' mark around a point."""
    r = _R
    places = {"x": x, "y": y, "l": x - r, "e": x + r, "t": y - r, "b": y + r, "r": r, "d": 2 * r}
    return _MARKS[index % len(_MARKS)].format(**{k: f"{v:.1f}" for k, v in places.items()})


def _variables(colours: tuple[str, ...]) -> str:
    return "".join(f"--s{index}:{value};" for index, value in enumerate(colours))


_LIGHT_CSS = f"{_variables(_LIGHT)}--ink:#1c1f24;--soft:#5b626d;--line:#d9dde3;--paper:#ffffff;"
_DARK_CSS = f"{_variables(_DARK)}--ink:#e8eaed;--soft:#a2a9b4;--line:#3a404a;--paper:#15181d;"

FONTS: Final = 'system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif'
CHART_CSS: Final = f"""\
:root{{{_LIGHT_CSS}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK_CSS}}}}}
@media print{{:root{{{_LIGHT_CSS}}}}}
.chart text{{font:11px {FONTS};fill:var(--soft)}}
.chart .name{{font-weight:600;font-size:12.5px;fill:var(--ink)}}
.chart .grid{{stroke:var(--line);stroke-width:1;fill:none}}
.chart .curve{{fill:none;stroke-width:1.9;stroke-linejoin:round}}
.chart .mark{{stroke-width:1.5;stroke-linejoin:round}}
.chart .band{{opacity:.13;stroke:none}}
.chart .whisker{{stroke-width:1.9;stroke-linecap:round}}
.chart .label{{fill:var(--ink)}}
"""
