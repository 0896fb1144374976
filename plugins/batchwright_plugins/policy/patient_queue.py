"""A queue in which no request waits longer than a bound before it is next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from batchwright.queues import KeyedQueue, Ticket
from batchwright.queues.heap import PlaceHeap

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["PatientQueue"]


class PatientQueue(KeyedQueue):
    """Smallest key first, but requests that have waited too long before all others.

    Those are served in the order in which they began to wait; a request that was put
    aside for a moment has waited on. Time is read once a step. All operations O(log n).

    Args:
        key: As of a KeyedQueue.
        ctx: The policy's.
        max_wait: Seconds in the queue after which a request is next; None: never.
    """

    def __init__(
        self, key: Callable[[RequestView], Any], ctx: Context, max_wait: float | None
    ) -> None:
        super().__init__(key)
        self._ctx = ctx
        self._max_wait = math.inf if max_wait is None else max_wait
        self._ages: PlaceHeap[RequestView] = PlaceHeap()
        self._since: dict[RequestView, float] = {}

    def __iter__(self) -> Iterator[RequestView]:
        overdue = dict.fromkeys(r for r in self._ages if self._is_overdue(r))
        yield from overdue
        yield from (request for request in super().__iter__() if request not in overdue)

    def peek(self) -> RequestView | None:
        oldest = self._ages.peek()
        if oldest is not None and self._is_overdue(oldest):
            return oldest
        return super().peek()

    def insert(self, request: RequestView, order: int) -> None:
        super().insert(request, order)
        self._since[request] = since = self._ctx.clock.now()
        self._ages.push(request, (since,), order)

    def remove(self, request: RequestView) -> Ticket:
        ticket = super().remove(request)
        self._ages.remove(request)
        return ticket

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        super().restore(request, ticket)
        self._ages.push(request, (self._since[request],), ticket.order)

    def forget(self, request: RequestView) -> None:
        super().forget(request)
        self._since.pop(request, None)

    def _is_overdue(self, request: RequestView) -> bool:
        return self._ctx.view.now - self._since[request] > self._max_wait
