"""Counts that many objects advance together, by changing one number."""

from __future__ import annotations

from typing import Final

from attrs import define


@define(eq=False)
class SharedCount:
    """A number that other counts follow."""

    value: int = 0


STANDSTILL: Final = SharedCount()
"""A count for counts that advance only by calls; stays 0."""


@define(eq=False)
class FollowingCount:
    """A count that advances with a shared one, or stands still.

    Attributes:
        base: The count minus the shared one.
        shared: The count that it follows.
    """

    base: int = 0
    shared: SharedCount = STANDSTILL

    @property
    def value(self) -> int:
        return self.base + self.shared.value

    @value.setter
    def value(self, count: int) -> None:
        self.base = count - self.shared.value

    def follow(self, shared: SharedCount) -> None:
        """Advance with another shared count from now on; the value stays."""
        self.base += self.shared.value - shared.value
        self.shared = shared


@define(eq=False)
class GrowingSum:
    """A sum that grows by ``rate`` whenever a shared count advances, at no cost then."""

    _shared: SharedCount
    _base: int = 0
    rate: int = 0

    @property
    def total(self) -> int:
        return self._base + self.rate * self._shared.value

    def add(self, amount: int) -> None:
        """Add an amount once."""
        self._base += amount

    def change_rate(self, by: int) -> None:
        """Add so much more from now on, whenever the shared count advances."""
        self._base -= by * self._shared.value
        self.rate += by
