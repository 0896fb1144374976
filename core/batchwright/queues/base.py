"""What every waiting queue can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from batchwright.request_view import RequestView


SortKey = tuple[float, ...]


@frozen
class Ticket:
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
    queue says otherwise. Ties fall to insertion order.
    """

    def __init__(self) -> None:
        self._next_order = 0
        self._next_front = -1

    def _order(self) -> int:
        order = self._next_order
        self._next_order += 1
        return order

    def _front(self) -> int:
        front = self._next_front
        self._next_front -= 1
        return front

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, request: RequestView) -> bool: ...

    @abstractmethod
    def __iter__(self) -> Iterator[RequestView]:
        """All requests in serving order. O(n log n): for explanations, not for steps."""

    @abstractmethod
    def add(self, request: RequestView) -> None:
        """Queue a new request behind its equals.

        Raises:
            Exception: Whatever the key function raises; the queue is unchanged.
        """

    @abstractmethod
    def requeue(self, request: RequestView) -> None:
        """Queue a preempted request where its key and its first insertion place it."""

    @abstractmethod
    def put_first(self, request: RequestView) -> None:
        """Queue a preempted request before all its equals."""

    @abstractmethod
    def peek(self) -> RequestView | None:
        """The next request, or None if the queue is empty."""

    @abstractmethod
    def remove(self, request: RequestView) -> Ticket:
        """Take a request out.

        Raises:
            KeyError: It is not in the queue.
        """

    @abstractmethod
    def restore(self, request: RequestView, ticket: Ticket) -> None:
        """Put a request back to the place that it had."""

    @abstractmethod
    def forget(self, request: RequestView) -> None:
        """Drop what is remembered of a request that has left for good."""

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
        if math.isnan(part):
            raise ValueError(f"a key must not contain NaN: {key!r}")
    return parts
