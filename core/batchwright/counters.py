"""Counts that many objects advance together, by changing one number."""

from __future__ import annotations

from typing import Final


class SharedCount:
    """A number that other counts follow."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value


STANDSTILL: Final = SharedCount()
"""A count for counts that advance only by calls; stays 0."""


class FollowingCount:
    """A count that advances with a shared one, or stands still.

    Attributes:
        base: The count minus the shared one.
        shared: The count that it follows.
    """

    __slots__ = ("base", "shared")

    def __init__(self) -> None:
        self.base = 0
        self.shared = STANDSTILL

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


class GrowingSum:
    """A sum that grows by ``rate`` whenever a shared count advances, at no cost then."""

    __slots__ = ("_base", "_shared", "rate")

    def __init__(self, shared: SharedCount) -> None:
        self._shared = shared
        self._base = 0
        self.rate = 0

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
