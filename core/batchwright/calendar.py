"""The calendar: in which epoch something happens to a request in steady decode.

A request in steady decode computes one token a step. What will happen to it is
therefore known beforehand: it needs a block when its position reaches a block
boundary, it ends when its length reaches a limit, a policy's mark comes due at a
position. The calendar holds these appointments, so that a step touches only the
requests that have one.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from batchwright.request import Request


class Epoch:
    """A count that many requests share: their computed tokens advance with it."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value


_running_order = attrgetter("running_order")

STANDSTILL: Final = Epoch()
"""The epoch of a request whose count advances only when it is told to; stays 0."""


class Calendar:
    """Appointments of requests that follow one epoch.

    Args:
        epoch: The epoch that the requests follow.
        period: Tokens between two recurring appointments: the block size.
    """

    __slots__ = ("_appointments", "_epoch", "_period", "_wheel")

    def __init__(self, epoch: Epoch, period: int) -> None:
        self._epoch = epoch
        self._period = period
        self._wheel: list[list[Request]] = [[] for _ in range(period)]
        self._appointments: dict[int, list[str]] = {}

    def enter(self, request: Request) -> None:
        """Take up a request that follows the epoch."""
        insort(self._bucket(request), request, key=_running_order)

    def strike(self, request: Request) -> None:
        """Take a request out again; its one-time appointments lapse."""
        bucket = self._bucket(request)
        del bucket[bisect_left(bucket, request.running_order, key=_running_order)]

    def _bucket(self, request: Request) -> list[Request]:
        return self._wheel[-request.computed_base % self._period]

    def at_position(self, offset: int) -> list[Request]:
        """Requests whose computed tokens are ``offset`` modulo the period now.

        The wheel turns by itself: a request's bucket depends on its base alone.

        Returns:
            Them in order of admission; do not change the list.
        """
        return self._wheel[(self._epoch.value - offset) % self._period]

    def appoint(self, request: Request, num_computed_tokens: int) -> None:
        """Have a request come due when its computed tokens reach a later count."""
        due = num_computed_tokens - request.computed_base
        self._appointments.setdefault(due, []).append(request.request_id)

    def due(self) -> list[str]:
        """Ids of requests with an appointment now; each appointment is kept once.

        A request may have left meanwhile: whoever asks looks at the request itself,
        which is the truth. (Ids, so that an appointment keeps no ended request alive.)
        """
        return self._appointments.pop(self._epoch.value, [])


class Alarms:
    """Times at which somebody wants to be called; a heap, O(log n)."""

    __slots__ = ("_count", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Any]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self.heap)

    @property
    def next_time(self) -> float | None:
        """Seconds on the scheduler's clock, or None if no alarm is set."""
        return self.heap[0][0] if self.heap else None

    def set(self, time: float, payload: Any) -> None:
        """Set an alarm.

        Raises:
            TypeError: The time is no number.
            ValueError: It never comes, or cannot be compared with others.
        """
        if not math.isfinite(time):
            raise ValueError(f"an alarm needs a finite time, not {time!r}")
        heapq.heappush(self.heap, (time, self._count, payload))
        self._count += 1

    def ring(self, now: float) -> Iterator[Any]:
        """Yield the payloads of all alarms due at ``now``, earliest first."""
        while self.heap and self.heap[0][0] <= now:
            yield heapq.heappop(self.heap)[2]
