"""Timers of components: at a number of computed tokens, or at a time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from operator import index
from typing import TYPE_CHECKING, Any

from batchwright.protocols import Component
from batchwright.request import Request
from batchwright.request_view import RequestView

if TYPE_CHECKING:
    from batchwright.decode_batch import DecodeBatch

__all__ = ["ClockTimers", "TokenTimers"]


class TokenTimers:
    """Numbers of computed tokens at which a component wants to be called.

    Each request keeps its own timers, nearest first.

    Attributes:
        reached: Requests that may have reached a timer, for ``take_due`` to look at.
    """

    def __init__(self, requests: dict[str, Request], decode_batch: DecodeBatch) -> None:
        self._requests = requests
        self._decode_batch = decode_batch
        self._count = 0
        self.reached: dict[str, Request] = {}

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
        heapq.heappush(request.timers, (num_computed_tokens, self._count, component, payload))
        self._count += 1
        if request.num_computed_tokens >= num_computed_tokens:
            self.reached[request.request_id] = request
        else:
            self._decode_batch.watch(request, num_computed_tokens)

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
                _, _, component, payload = heapq.heappop(request.timers)
                due.append((component, request.view, payload))
            if request.timers:
                self._decode_batch.watch(request, request.timers[0][0])
        return due


class ClockTimers:
    """Times at which a component wants to be called; a heap, O(log n)."""

    __slots__ = ("_count", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Any]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self.heap)

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
        heapq.heappush(self.heap, (time, self._count, payload))
        self._count += 1

    def take_due(self, now: float) -> Iterator[Any]:
        """Yield the payloads of all timers due at ``now``, earliest first."""
        while self.heap and self.heap[0][0] <= now:
            yield heapq.heappop(self.heap)[2]
