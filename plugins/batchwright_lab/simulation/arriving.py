"""Requests on their way into a simulation: those of a trace, and those that follow."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from batchwright.protocols import Arrival

__all__ = ["Arriving"]

_NEVER: Final = math.inf


class Arriving:
    """Arrivals in order of time.

    Args:
        arrivals: Arrivals that do not depend on the service, in order of time.
        pace: Its times are divided by this.
        limit: Most arrivals, followers included; None: all.

    Attributes:
        num_taken: Number of arrivals so far.
        next_time: When the next one arrives (seconds), infinite if none does.
    """

    def __init__(
        self, arrivals: Iterable[Arrival], *, pace: float = 1.0, limit: int | None = None
    ) -> None:
        self._open: Iterator[Arrival] = iter(arrivals)
        self._pace = pace
        self._left = limit
        self._followers: list[tuple[float, int, Arrival]] = []
        self._num_followers = 0
        self.num_taken = 0
        self.next_time = _NEVER
        self._head: Arrival | None = None
        self._draw()
        self._look()

    def follow(self, arrivals: Iterable[Arrival]) -> None:
        """Take up what arrives because something has happened."""
        for arrival in arrivals:
            heapq.heappush(self._followers, (arrival.time, self._num_followers, arrival))
            self._num_followers += 1
        self._look()

    def due(self, now: float) -> Iterator[Arrival]:
        """Take out what has arrived, in order of time; the trace before followers."""
        while self.next_time <= now:
            self.num_taken += 1
            if self._left is not None:
                self._left -= 1
            head = self._head
            if head is not None and head.time <= self.next_time:
                self._draw()
            else:
                _, _, head = heapq.heappop(self._followers)
            self._look()
            yield head

    def count_rest(self) -> int:
        """Count the arrivals that are left, followers of followers left out; reads them all."""
        waiting = (self._head is not None) + len(self._followers)
        if self._left is not None:
            return min(self._left, waiting + sum(1 for _ in islice(self._open, self._left)))
        return waiting + sum(1 for _ in self._open)

    def _draw(self) -> None:
        self._head = head = next(self._open, None)
        if head is not None and self._pace != 1.0:
            head.time /= self._pace

    def _look(self) -> None:
        time = self._head.time if self._head is not None else _NEVER
        if self._followers and self._followers[0][0] < time:
            time = self._followers[0][0]
        self.next_time = _NEVER if self._left == 0 else time
