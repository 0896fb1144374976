"""Figures of contenders as charts take them: which ones, in which unit, in which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from batchwright_lab.comparison.chart.dot_chart import Dot, DotChart
from batchwright_lab.comparison.chart.line_chart import LineChart
from batchwright_lab.comparison.wording import spread_range, value

if TYPE_CHECKING:
    from batchwright_lab.comparison.measure import Measure
    from batchwright_lab.comparison.summary import Spread, Summary

__all__ = [
    "LATENCY",
    "NUM_HIGHLIGHTS",
    "SERVICE",
    "Chart",
    "axis_of",
    "capital",
    "dot_of",
    "highlights",
    "in_words",
    "name_of",
]

Chart = LineChart | DotChart

LATENCY: Final = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "e2e_mean", "e2e_p99")
SERVICE: Final = (
    "attainment", "goodput", "output_tokens_per_s", "jain", "passed_over_max",
    "preemptions", "displacements", "recompute_tax", "hit_ratio", "kv_peak",
)  # fmt: skip
NUM_HIGHLIGHTS: Final = 4
_AXIS_UNITS: Final = {"1/s": "requests/s", "tokens/s": "tokens/s"}


def highlights(summary: Summary) -> list[str]:
    """Return keys of the measures that say most, more than are shown: some may have no figure."""
    return list(dict.fromkeys((summary.measure.key, "ttft_p99", "e2e_mean", "jain", "tpot_p99")))


def axis_of(measure: Measure, most: float) -> tuple[float, str]:
    """Return the factor of values on an axis up to ``most``, and the unit that they have then."""
    if measure.unit == "s":
        return (1000.0, "ms") if most < 1 else (1.0, "s")
    if measure.unit == "share":
        return (1.0, "") if measure.key == "jain" else (100.0, "%")
    return 1.0, _AXIS_UNITS.get(measure.unit, "" if measure.unit == "times" else measure.unit)


def name_of(measure: Measure, unit: str) -> str:
    """Return the title of a chart of a measure."""
    return capital(f"{measure.name}, {unit}" if unit else measure.name)


def dot_of(policy: str, style: int, measure: Measure, spread: Spread, factor: float) -> Dot:
    """Return a figure as a dot with its spread."""
    value, least, most = (factor * number for number in (spread.mean, spread.least, spread.most))
    return Dot(policy, style, value, least, most, in_words(measure, spread))


def in_words(measure: Measure, spread: Spread) -> str:
    """Return the mean of a figure, with its spread in brackets."""
    spread_text = spread_range(measure, spread)
    mean = value(measure, spread.mean)
    return f"{mean} ({spread_text})" if spread_text else mean


def capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]
