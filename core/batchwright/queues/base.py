"""The interface of every waiting queue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from batchwright.request_view import RequestView

SortKey = tuple[float, ...]


class Ticket(NamedTuple):
    """The place that a request had in a queue, so that it can return to it.

    Args:
        key: Its sort key.
        order: Its place among equal keys.
    """

    key: SortKey
    order: int


class WaitingQueue(ABC):
    """Waiting requests in the order in which they should be served.

    Every operation is O(log n) or better in the number of waiting requests unless a
    queue says otherwise. Ties fall to insertion order. A queue of your own defines what
    is abstract here; ``insert`` is what ``add``, ``requeue`` and ``put_first`` share.
    """

    def __init__(self) -> None:
        self._orders: dict[RequestView, int] = {}
        self._next_order = 0
        self._next_front = -1

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, request: RequestView) -> bool: ...

    @abstractmethod
    def __iter__(self) -> Iterator[RequestView]:
        """All requests in serving order. O(n log n): for explanations, not for steps."""

    @abstractmethod
    def peek(self) -> RequestView | None:
        """The next request, or None if the queue is empty."""

    @abstractmethod
    def insert(self, request: RequestView, order: int) -> None:
        """Queue a request where its key places it; among equals by ``order``.

        Raises:
            Exception: Whatever the key function raises; the queue is unchanged.
        """

    @abstractmethod
    def remove(self, request: RequestView) -> Ticket:
        """Take a request out.

        Raises:
            KeyError: It is not in the queue.
        """

    @abstractmethod
    def restore(self, request: RequestView, ticket: Ticket) -> None:
        """Put a request back to the place that it had."""

    def add(self, request: RequestView) -> None:
        """Queue a new request behind its equals."""
        self.insert(request, self._next_order)
        self._orders[request] = self._next_order
        self._next_order += 1

    def requeue(self, request: RequestView) -> None:
        """Queue a preempted request where its key and its first insertion place it."""
        if request in self._orders:
            self.insert(request, self._orders[request])
        else:
            self.add(request)

    def put_first(self, request: RequestView) -> None:
        """Queue a preempted request before all its equals."""
        self.insert(request, self._next_front)
        self._next_front -= 1

    def rekey(self, request: RequestView) -> None:
        """Ask for a queued request's key again; its order among equals stays.

        Raises:
            Exception: Whatever the key function raises; the queue is unchanged.
        """
        if request in self:
            ticket = self.remove(request)
            try:
                self.insert(request, ticket.order)
            except BaseException:
                self.restore(request, ticket)
                raise

    def forget(self, request: RequestView) -> None:
        """Drop what is remembered of a request that has left for good."""
        self._orders.pop(request, None)

    def first(self, count: int) -> list[RequestView]:
        """The requests that are served next, in order, at most ``count`` of them.

        O(count log n), unlike ``iter(queue)``.
        """
        taken: list[tuple[RequestView, Ticket]] = []
        try:
            while len(taken) < count and (request := self.peek()) is not None:
                taken.append((request, self.remove(request)))
        finally:  # a key that raises must not cost any request its place
            for request, ticket in reversed(taken):
                self.restore(request, ticket)
        return [request for request, _ in taken]

    def pop(self) -> RequestView | None:
        """Take out the next request, or None if the queue is empty."""
        request = self.peek()
        if request is not None:
            self.remove(request)
        return request


def as_sort_key(key: Any) -> SortKey:
    """Turn what a key function returned into a key with a total order.

    Raises:
        TypeError: It is no number and no tuple of numbers.
        ValueError: A number in it is NaN.
    """
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, int | float):
            raise TypeError(f"a key must be a number or a tuple of numbers, not {key!r}")
        if part != part:  # NaN; math.isnan refuses large integers
            raise ValueError(f"a key must not contain NaN: {key!r}")
    return parts
