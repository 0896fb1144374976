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
from collections.abc import Iterator, Mapping
from itertools import chain
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


NEVER: Final = 1 << 62
"""More steps than there will be."""


class Calendar:
    """Appointments of requests that follow one epoch.

    Args:
        epoch: The epoch that the requests follow.
        period: Tokens between two recurring appointments: the block size.
    """

    __slots__ = ("_appointments", "_dues", "_epoch", "_wheel", "period")

    def __init__(self, epoch: Epoch, period: int) -> None:
        self._epoch = epoch
        self.period = period
        self._wheel: list[list[Request]] = [[] for _ in range(period)]
        self._appointments: dict[int, list[str]] = {}
        self._dues: list[int] = []

    def enter(self, request: Request) -> None:
        """Take up a request that follows the epoch."""
        insort(self._bucket(request), request, key=_running_order)

    def strike(self, request: Request) -> None:
        """Take a request out again; its one-time appointments lapse."""
        bucket = self._bucket(request)
        del bucket[bisect_left(bucket, request.running_order, key=_running_order)]

    def _bucket(self, request: Request) -> list[Request]:
        return self._wheel[-request.computed_base % self.period]

    def at_position(self, offset: int) -> list[Request]:
        """Requests whose computed tokens are ``offset`` modulo the period now.

        The wheel turns by itself: a request's bucket depends on its base alone.

        Returns:
            Them in order of admission; do not change the list.
        """
        return self._wheel[(self._epoch.value - offset) % self.period]

    def at_position_over(self, offset: int, num_steps: int) -> list[Request]:
        """Those of ``at_position`` now, and behind each of the next advances, in a row."""
        start = (self._epoch.value - offset) % self.period
        turned = self._wheel[start:] + self._wheel[:start]
        rounds, rest = divmod(num_steps, self.period)
        last = list(chain.from_iterable(turned[:rest]))
        return list(chain.from_iterable(turned)) * rounds + last if rounds else last

    def appoint(self, request: Request, num_computed_tokens: int) -> None:
        """Have a request come due when its computed tokens reach a later count."""
        due = num_computed_tokens - request.computed_base
        ids = self._appointments.get(due)
        if ids is None:
            self._appointments[due] = ids = []
            heapq.heappush(self._dues, due)
        ids.append(request.request_id)

    def steps_to_appointment(self, running: Mapping[str, Request]) -> int:
        """Advances of the epoch until a request that follows it may come due.

        Appointments of those who have left are forgotten.
        """
        now = self._epoch.value
        while self._dues:
            due = self._dues[0]
            if due > now:
                for request_id in self._appointments.get(due, ()):
                    request = running.get(request_id)
                    if request is not None and request.epoch is self._epoch:
                        return due - now
            self._appointments.pop(heapq.heappop(self._dues), None)
        return NEVER

    def due(self) -> list[str]:
        """Ids of requests with an appointment now; each appointment is kept once.

        A request may have left meanwhile: the caller looks at the request itself,
        which is the truth. (Ids, so that an appointment keeps no ended request alive.)
        """
        return self._appointments.pop(self._epoch.value, [])


class Alarms:
    """Times at which a component wants to be called; a heap, O(log n)."""

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
