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
        self._new_keys: dict[RequestView, SortKey] = {}

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
        self._new_keys.pop(request, None)

    def remove(self, request: RequestView) -> Ticket:
        return self._heap.remove(request)

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        self._heap.push(request, self._new_keys.pop(request, ticket.key), ticket.order)

    def forget(self, request: RequestView) -> None:
        super().forget(request)
        self._new_keys.pop(request, None)

    def rekey(self, request: RequestView) -> None:
        """Ask for a request's key again; its order among equals stays.

        The new key of a request that is not in the queue now (deferred, waiting for a key,
        running) counts when it comes back.

        Raises:
            KeyError: It was never in the queue, or has left it for good.
        """
        if request in self._heap:
            self._heap.move(request, as_sort_key(self._key(request)))
        elif request in self._orders:
            self._new_keys[request] = as_sort_key(self._key(request))
        else:
            raise KeyError(request)

    def key_of(self, request: RequestView) -> SortKey:
        """The key under which a request is queued.

        Raises:
            KeyError: It is not in the queue.
        """
        return self._heap.key(request)
