"""Figures in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from batchwright_lab.comparison.measure import Measure

if TYPE_CHECKING:
    from batchwright_lab.comparison.summary import Spread, Versus

DASH: Final = "\N{EN DASH}"
TIMES: Final = "\N{MULTIPLICATION SIGN}"

__all__ = ["DASH", "change", "range_of_change", "spread_range", "value"]


def value(measure: Measure, number: float | None) -> str:
    """A figure with its unit: three digits, or all of a whole number."""
    if number is None:
        return DASH
    if measure.unit == "share":
        return f"{number:.2f}" if measure.key == "jain" else f"{number:.1%}"
    if measure.unit == "s":
        return seconds(number)
    if measure.unit in ("times", "requests"):
        return f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"
    return f"{digits(number)} {_UNITS.get(measure.unit, measure.unit)}"


_UNITS = {"1/s": "req/s", "tokens/s": "tok/s"}


def seconds(number: float) -> str:
    """A time, in milliseconds below one second."""
    return f"{digits(1000 * number)} ms" if abs(number) < 1 else f"{digits(number)} s"


def digits(number: float) -> str:
    """A number with three digits, without an exponent."""
    if number == 0:
        return "0"
    size = abs(number)
    return f"{number:,.0f}" if size >= 100 else f"{number:.1f}" if size >= 10 else f"{number:.2f}"


def spread_range(measure: Measure, spread: Spread) -> str:
    """Least and greatest value; empty if there is but one seed."""
    if spread.count < 2:
        return ""
    low, high = value(measure, spread.least), value(measure, spread.most)
    number, _, unit = low.partition(" ")
    is_same = bool(unit) and high.endswith(f" {unit}")
    return f"{number if is_same else low}{DASH}{high}"


def change(measure: Measure, amount: float) -> str:
    """A ratio (0.71 times), or a difference (``+3.2 points``)."""
    if measure.by_ratio:
        return f"{amount:.2f}{TIMES}"
    if measure.unit == "share" and measure.key != "jain":
        return f"{100 * amount:+.1f} points"
    return f"{amount:+.2f}"


def range_of_change(measure: Measure, versus: Versus) -> str:
    """Least and greatest change of the seeds."""
    least, most = change(measure, versus.least), change(measure, versus.most)
    return f"{least.removesuffix(' points')} to {most}"
