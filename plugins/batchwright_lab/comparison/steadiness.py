"""Signs that figures say little: a queue that still grows, percentiles of few requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

if TYPE_CHECKING:
    from batchwright_lab.comparison.summary import Contender, Summary

__all__ = ["FEWEST_IN_TAIL", "GROWTH", "LEAST_GROWTH", "Growth", "steadiness_warnings"]

GROWTH: Final = 1.5
"""Waiting requests in the last third of the arrivals by those in the middle, in a transient."""
LEAST_GROWTH: Final = 10
"""Least difference of the two (requests)."""
FEWEST_IN_TAIL: Final = 20
"""Requests beyond a percentile that can be relied on."""
_PERCENTILES: Final = (50, 90, 99)


@frozen
class Growth:
    """Requests that wait while others arrive, on average over time.

    Args:
        middle: In the middle third of that time.
        last: In the last third.
    """

    middle: float
    last: float

    @classmethod
    def of(cls, series: Mapping[str, Any], begin: float, end: float) -> Growth | None:
        """Measure it.

        Args:
            series: Samples over time: ``time`` and ``waiting``.
            begin: When the first request arrives that counts (seconds).
            end: When the last one arrives (seconds).

        Returns:
            None if all requests arrive at once, or there are no samples.
        """
        times, waiting = series.get("time", ()), series.get("waiting", ())
        third = (end - begin) / 3
        if third <= 0 or not times:
            return None
        means = [_mean(times, waiting, end - k * third, end - (k - 1) * third) for k in (2, 1)]
        return cls(*means)

    @property
    def is_transient(self) -> bool:
        """True if the queue has not settled, so that figures depend on the length of the run."""
        return self.last > GROWTH * self.middle and self.last - self.middle >= LEAST_GROWTH

    def __str__(self) -> str:
        return (
            f"a transient: {self.middle:,.0f} requests wait in the middle third of the arrivals, "
            f"{self.last:,.0f} in the last"
        )


def _mean(times: Sequence[float], values: Sequence[float], begin: float, end: float) -> float:
    """Mean over time of what is sampled; each sample holds until the next one."""
    area = 0.0
    for index, time in enumerate(times):
        until = times[index + 1] if index + 1 < len(times) else end
        area += values[index] * max(0.0, min(until, end) - max(time, begin))
    return area / (end - begin)


def steadiness_warnings(summary: Summary) -> Iterator[str]:
    """Transients, and percentiles that rest on few requests."""
    growing: dict[str, dict[str, None]] = {}
    for contender in summary.contenders:
        for cell in contender.cells:
            if cell.growth is not None and cell.growth.is_transient:
                where = "" if cell.rate is None else f" at {cell.rate:g} requests/s"
                growing.setdefault(where, {})[contender.label] = None
    for where, labels in growing.items():
        yield (
            f"A transient{where}: the queue still grows when the last request arrives "
            f"({', '.join(labels)}). Such figures depend on how long the run is."
        )
    yield from _thin_percentiles(summary)


def _thin_percentiles(summary: Summary) -> Iterator[str]:
    counts = [count for c in summary.ranked if (count := _num_ended(summary, c)) is not None]
    if not counts:
        return
    fewest = min(counts)
    thin = [(p, fewest * (100 - p) / 100) for p in _PERCENTILES]
    told = [f"{tail:.0f} beyond p{p}" for p, tail in thin if tail < FEWEST_IN_TAIL]
    if told:
        rate = summary.top_rate
        where = "" if rate is None else f" at {rate:g} requests/s"
        yield (
            f"Of {fewest:,} requests that ended{where}, {', '.join(told)}: a percentile with "
            f"fewer than {FEWEST_IN_TAIL} requests beyond it is rough. Take more, or more seeds."
        )


def _num_ended(summary: Summary, contender: Contender) -> int | None:
    """Requests that ended at the highest rate, over all seeds if they differ."""
    cells = [c for c in contender.cells if c.rate == summary.top_rate and not c.fault]
    found = [ended for c in cells if (ended := c.figures.get("ended")) is not None]
    if not found:
        return None
    return int(sum(found) if summary.seeds_differ else max(found))
