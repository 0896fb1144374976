"""A bounded window of arrival order, scored anew at every look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from batchwright.queues.base import Ticket, WaitingQueue, as_sort_key
from batchwright.queues.heap import PlaceHeap

if TYPE_CHECKING:
    from batchwright.request_view import RequestView


class WindowQueue(WaitingQueue):
    """The best-scored of the first requests in arrival order.

    Scores may depend on anything and are asked for at every ``peek``: O(size). What
    waits behind the window costs nothing.

    Args:
        score: Higher is served sooner; ties fall to arrival order.
        size: Requests in the window.

    Raises:
        ValueError: ``size`` is below 1.
    """

    def __init__(self, score: Callable[[RequestView], float], size: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"a window holds at least 1 request, not {size}")
        self._score = score
        self._size = size
        self._window: dict[str, tuple[int, RequestView]] = {}
        self._backlog = PlaceHeap()
        self._orders: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._window) + len(self._backlog)

    def __contains__(self, request: RequestView) -> bool:
        return request.request_id in self._window or request.request_id in self._backlog

    def __iter__(self) -> Iterator[RequestView]:
        window = sorted(self._window.values(), key=lambda place: self._rank(*place))
        yield from (request for _, request in window)
        yield from self._backlog

    def add(self, request: RequestView) -> None:
        self._orders[request.request_id] = order = self._order()
        self._insert(request, order)

    def requeue(self, request: RequestView) -> None:
        order = self._orders.get(request.request_id)
        if order is None:
            order = self._orders[request.request_id] = self._order()
        self._insert(request, order)

    def put_first(self, request: RequestView) -> None:
        self._insert(request, self._front())

    def peek(self) -> RequestView | None:
        if not self._window:
            return None
        return min(self._window.values(), key=lambda place: self._rank(*place))[1]

    def remove(self, request: RequestView) -> Ticket:
        if request.request_id in self._backlog:
            return Ticket((), self._backlog.remove(request.request_id)[1])
        order, _ = self._window.pop(request.request_id)
        self._refill()
        return Ticket((), order)

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        self._insert(request, ticket.order)

    def forget(self, request: RequestView) -> None:
        self._orders.pop(request.request_id, None)

    def _rank(self, order: int, request: RequestView) -> tuple[tuple[float, ...], int]:
        (score,) = as_sort_key(self._score(request))
        return (-score,), order

    def _insert(self, request: RequestView, order: int) -> None:
        self._backlog.push(request, (), order)
        last = max(self._window.values(), default=(order, request), key=lambda p: p[0])
        if len(self._window) >= self._size and order < last[0]:
            # It belongs into the window: the last one there makes room.
            del self._window[last[1].request_id]
            self._backlog.push(last[1], (), last[0])
        self._refill()

    def _refill(self) -> None:
        while len(self._window) < self._size:
            entry = self._backlog.peek()
            if entry is None:
                return
            self._backlog.remove(entry[2])
            self._window[entry[2]] = (entry[1], entry[3])
