"""A bounded window of arrival order, scored anew at every look."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from batchwright.queues.base import SortKey, Ticket, WaitingQueue, as_sort_key
from batchwright.queues.heap import PlaceHeap
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
        self._window: dict[RequestView, int] = {}
        self._backlog: PlaceHeap[RequestView] = PlaceHeap()

    def __len__(self) -> int:
        return len(self._window) + len(self._backlog)

    def __contains__(self, request: RequestView) -> bool:
        return request in self._window or request in self._backlog

    def __iter__(self) -> Iterator[RequestView]:
        yield from sorted(self._window, key=self._rank)
        yield from self._backlog

    def peek(self) -> RequestView | None:
        return min(self._window, key=self._rank, default=None)

    def insert(self, request: RequestView, order: int) -> None:
        window = self._window
        window[request] = order
        if len(window) > self._size:
            last = max(window, key=window.__getitem__)
            self._backlog.push(last, (), window.pop(last))

    def remove(self, request: RequestView) -> Ticket:
        if request in self._backlog:
            return self._backlog.remove(request)
        order = self._window.pop(request)
        first = self._backlog.peek()
        if first is not None:
            self._window[first] = self._backlog.remove(first).order
        return Ticket((), order)

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        self.insert(request, ticket.order)

    def _rank(self, request: RequestView) -> tuple[SortKey, int]:
        (score,) = as_sort_key(self._score(request))
        return (-score,), self._window[request]
