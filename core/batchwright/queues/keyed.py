"""Requests in the order of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from batchwright.queues.base import SortKey, Ticket, WaitingQueue, as_sort_key
from batchwright.queues.heap import PlaceHeap

if TYPE_CHECKING:
    from batchwright.request_view import RequestView


class KeyedQueue(WaitingQueue):
    """Smallest key first, ties in insertion order. All operations O(log n).

    Args:
        key: Called with a request when it is queued, and by ``rekey``; its answer must
            be stable in between.
    """

    def __init__(self, key: Callable[[RequestView], Any]) -> None:
        super().__init__()
        self._key = key
        self._heap = PlaceHeap()
        self._orders: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, request: RequestView) -> bool:
        return request.request_id in self._heap

    def __iter__(self) -> Iterator[RequestView]:
        return iter(self._heap)

    def add(self, request: RequestView) -> None:
        key = as_sort_key(self._key(request))
        self._orders[request.request_id] = order = self._order()
        self._heap.push(request, key, order)

    def requeue(self, request: RequestView) -> None:
        key = as_sort_key(self._key(request))
        order = self._orders.get(request.request_id)
        if order is None:
            order = self._orders[request.request_id] = self._order()
        self._heap.push(request, key, order)

    def put_first(self, request: RequestView) -> None:
        key = as_sort_key(self._key(request))
        self._heap.push(request, key, self._front())

    def rekey(self, request: RequestView) -> None:
        """Ask for a queued request's key again; its order among equals stays.

        Raises:
            KeyError: It is not in the queue.
        """
        key = as_sort_key(self._key(request))
        order = self._heap.remove(request.request_id)[1]
        self._heap.push(request, key, order)

    def peek(self) -> RequestView | None:
        entry = self._heap.peek()
        return entry[3] if entry is not None else None

    def remove(self, request: RequestView) -> Ticket:
        key, order, _, _ = self._heap.remove(request.request_id)
        return Ticket(key, order)

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        self._heap.push(request, ticket.key, ticket.order)

    def forget(self, request: RequestView) -> None:
        self._orders.pop(request.request_id, None)

    def key_of(self, request: RequestView) -> SortKey:
        """The key under which a request is queued.

        Raises:
            KeyError: It is not in the queue.
        """
        return self._heap.entry(request.request_id)[0]
