"""Axes: where a value lies, and which values are written beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import frozen

__all__ = ["Axis", "tick_label"]

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_DECADES: Final = 3
"""Beyond so many decades only powers of ten are written."""


@frozen
class Axis:
    """A linear or logarithmic axis.

    Args:
        low: Value at its beginning.
        high: Value at its end.
        start: Coordinate of its beginning (px).
        stop: Coordinate of its end (px).
        is_log: Whether equal ratios take equal space.
    """

    low: float
    high: float
    start: float
    stop: float
    is_log: bool = False

    @classmethod
    def over(
        cls,
        values: Iterable[float],
        start: float,
        stop: float,
        *,
        is_log: bool = False,
        from_zero: bool = False,
    ) -> Axis:
        """An axis that holds values, with its ends at ticks if it is linear and begins at 0.

        Args:
            values: What it must hold; those that a logarithm does not have are left out.
            start: Coordinate of its beginning (px).
            stop: Coordinate of its end (px).
            is_log: Whether equal ratios take equal space.
            from_zero: Whether it begins at 0 (linear ones).
        """
        found = [v for v in values if math.isfinite(v) and (v > 0 or not is_log)]
        low, high = (min(found), max(found)) if found else (1.0, 1.0)
        if from_zero and not is_log:
            low, high = 0.0, _ceiling(high)
        if low == high:
            low, high = (low / 2, high * 2) if is_log else (low - 0.5, high + 0.5)
        return cls(low, high, start, stop, is_log)

    def at(self, value: float) -> float:
        """The coordinate of a value (px); of one beyond its ends, the end."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """Values to write beside it, ascending."""
        found = list(self._log_ticks() if self.is_log else self._linear_ticks())
        return [
            value for value in found if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)
        ]

    def _linear_ticks(self) -> Iterator[float]:
        step = _step(self.high - self.low)
        for number in range(
            math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1
        ):
            yield number * step

    def _log_ticks(self) -> Iterator[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        decades = math.log10(self.high / self.low)
        factors = (1,) if decades > _MOST_DECADES else (1, 3) if decades > 1 else (1, 2, 5)
        for exponent in range(first, last + 1):
            yield from (factor * 10.0**exponent for factor in factors)


def _step(span: float) -> float:
    """A round distance that makes some four of a span."""
    rough = span / 4
    scale = 10.0 ** math.floor(math.log10(rough))
    return next(step * scale for step in _STEPS if step * scale >= rough * (1 - 1e-9))


def _ceiling(value: float) -> float:
    """The first tick at or above a value, on an axis from 0."""
    if value <= 0:
        return 1.0
    step = _step(value)
    return step * math.ceil(value / step - 1e-9)


def tick_label(value: float) -> str:
    """A short number: 12,000 is 12k."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{float(f'{value:.3g}'):g}"
