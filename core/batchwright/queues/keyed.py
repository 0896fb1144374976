"""Requests in the order of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from batchwright.queues.base import SortKey, Ticket, WaitingQueue, as_sort_key
from batchwright.queues.heap import PlaceHeap
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
        self._heap: PlaceHeap[RequestView] = PlaceHeap()

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, request: RequestView) -> bool:
        return request in self._heap

    def __iter__(self) -> Iterator[RequestView]:
        return iter(self._heap)

    def peek(self) -> RequestView | None:
        return self._heap.peek()

    def insert(self, request: RequestView, order: int) -> None:
        self._heap.push(request, as_sort_key(self._key(request)), order)

    def remove(self, request: RequestView) -> Ticket:
        return self._heap.remove(request)

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        self._heap.push(request, *ticket)

    def rekey(self, request: RequestView) -> None:
        """Ask for a queued request's key again; its order among equals stays.

        Raises:
            KeyError: It is not in the queue.
        """
        key = as_sort_key(self._key(request))
        self._heap.push(request, key, self._heap.remove(request).order)

    def key_of(self, request: RequestView) -> SortKey:
        """The key under which a request is queued.

        Raises:
            KeyError: It is not in the queue.
        """
        return self._heap.key(request)
