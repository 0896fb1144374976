"""A heap of places from which anything can be removed."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from batchwright.queues.base import SortKey, Ticket

T = TypeVar("T", bound=Hashable)


class PlaceHeap(Generic[T]):
    """Items by (key, order); no two have the same order.

    A removed item leaves a tombstone that ``peek`` sweeps away. When tombstones outnumber
    the living the heap is rebuilt, so that memory and time stay proportional to what is
    in it (amortised O(log n) an operation).
    """

    def __init__(self) -> None:
        self._heap: list[tuple[SortKey, int, T]] = []
        self._living: dict[T, tuple[SortKey, int, T]] = {}

    def __len__(self) -> int:
        return len(self._living)

    def __contains__(self, item: T) -> bool:
        return item in self._living

    def __iter__(self) -> Iterator[T]:
        return iter(sorted(self._living, key=self._living.__getitem__))

    def push(self, item: T, key: SortKey, order: int) -> None:
        self._living[item] = entry = (key, order, item)
        heapq.heappush(self._heap, entry)

    def peek(self) -> T | None:
        """The first item, or None if there is none."""
        heap, living = self._heap, self._living
        while heap:
            entry = heap[0]
            if living.get(entry[2]) is entry:
                return entry[2]
            heapq.heappop(heap)
        return None

    def key(self, item: T) -> SortKey:
        return self._living[item][0]

    def move(self, item: T, key: SortKey) -> None:
        """Put an item under another key; its order stays."""
        self.push(item, key, self.remove(item).order)

    def remove(self, item: T) -> Ticket:
        key, order, _ = self._living.pop(item)
        if len(self._heap) > 2 * len(self._living) + 16:
            self._heap = list(self._living.values())
            heapq.heapify(self._heap)
        return Ticket(key, order)
