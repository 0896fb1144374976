"""A distribution of times, in memory that does not grow for ever."""

from __future__ import annotations

import math
from array import array
from typing import Final

from batchwright_plugins.metrics import mean, percentile

__all__ = ["Distribution"]

MOST_EXACT: Final = 100_000
"""Values that are kept one by one."""
_RATIO: Final = math.log(1.001)
_NOTHING: Final = -(1 << 62)


class Distribution:
    """Mean and percentiles of values >= 0.

    Up to 100,000 values are kept, and percentiles are exact. Beyond that they are counted
    in bins whose bounds are 0.1 % apart, and a percentile is the middle of its bin.
    """

    def __init__(self) -> None:
        self._values: array[float] | None = array("d")
        self._bins: dict[int, int] = {}
        self._count = 0
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Take in a value."""
        values = self._values
        if values is None:
            self._sort_in(value)
            return
        values.append(value)
        if len(values) > MOST_EXACT:
            self._values = None
            for known in values:
                self._sort_in(known)

    def figures(self, shares: tuple[int, ...]) -> tuple[float | None, list[float | None]]:
        """The mean, and percentiles.

        Args:
            shares: Percent each, ascending.
        """
        if self._values is not None:
            ordered = sorted(self._values)
            return mean(ordered), [percentile(ordered, share) for share in shares]
        return self._sum / self._count, self._percentiles(shares)

    def _sort_in(self, value: float) -> None:
        self._count += 1
        self._sum += value
        place = math.floor(math.log(value) / _RATIO) if value > 0 else _NOTHING
        self._bins[place] = self._bins.get(place, 0) + 1

    def _percentiles(self, shares: tuple[int, ...]) -> list[float | None]:
        found: list[float | None] = []
        below = 0
        bins = iter(sorted(self._bins.items()))
        place = _NOTHING
        for share in shares:
            rank = (self._count - 1) * share / 100
            while below <= rank:
                place, count = next(bins)
                below += count
            found.append(0.0 if place == _NOTHING else math.exp((place + 0.5) * _RATIO))
        return found
