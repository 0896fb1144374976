"""Timers of components: at a number of computed tokens, or at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heappop, heappush
from operator import index
from typing import Any

from attrs import define, field

from batchwright.decode_batch import DecodeBatch
from batchwright.protocols import Component
from batchwright.request import Request
from batchwright.request_view import RequestView


@define(eq=False)
class TokenTimers:
    """Numbers of computed tokens at which a component wants to be called.

    Each request keeps its own timers, nearest first.

    Attributes:
        reached: Requests that may have reached a timer, for ``take_due`` to look at.
    """

    _requests: dict[str, Request]
    _decode_batch: DecodeBatch
    _count: int = field(init=False, default=0)
    reached: dict[str, Request] = field(init=False, factory=dict)

    def set(
        self, view: RequestView, num_computed_tokens: int, component: Component, payload: Any
    ) -> None:
        """Set a timer; it lapses if the request has ended.

        Raises:
            TypeError: The number is no integer.
        """
        num_computed_tokens = index(num_computed_tokens)  # here, not where it comes due
        request = self._requests.get(view.request_id)
        if request is None or request.view is not view:
            return
        heappush(request.timers, (num_computed_tokens, self._count, component, payload))
        self._count += 1
        if num_computed_tokens > request.num_computed_tokens:
            self._decode_batch.watch(request, num_computed_tokens)
        self.note(request)

    def note(self, request: Request) -> None:
        """Note a request that may have reached its nearest timer."""
        if request.timers and request.num_computed_tokens >= request.timers[0][0]:
            self.reached[request.request_id] = request

    def take_due(self) -> list[tuple[Component, RequestView, Any]]:
        """Take out every timer that has been reached, in order of request and number."""
        due = []
        reached, self.reached = self.reached, {}
        for request in reached.values():
            if request.status.is_finished:
                continue
            while request.timers and request.timers[0][0] <= request.num_computed_tokens:
                _, _, component, payload = heappop(request.timers)
                due.append((component, request.view, payload))
            if request.timers:
                self._decode_batch.watch(request, request.timers[0][0])
        return due


@define(eq=False)
class ClockTimers:
    """Times at which a component wants to be called; a heap, O(log n)."""

    heap: list[tuple[float, int, Any]] = field(init=False, factory=list)
    _count: int = field(init=False, default=0)

    @property
    def next_time(self) -> float | None:
        """Seconds on the scheduler's clock, or None if no timer is set."""
        return self.heap[0][0] if self.heap else None

    def set(self, time: float, payload: Any) -> None:
        """Set a timer.

        Raises:
            TypeError: The time is no number.
            ValueError: It never comes, or cannot be compared with others.
        """
        if not math.isfinite(time):
            raise ValueError(f"a timer needs a finite time, not {time!r}")
        heappush(self.heap, (time, self._count, payload))
        self._count += 1

    def take_due(self, now: float) -> Iterator[Any]:
        """Yield the payloads of all timers due at ``now``, earliest first."""
        while self.heap and self.heap[0][0] <= now:
            yield heappop(self.heap)[2]
