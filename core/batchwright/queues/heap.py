"""A heap of places from which any entry can be removed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchwright.queues.base import SortKey
    from batchwright.request_view import RequestView


Entry = tuple["SortKey", int, str, "RequestView"]


class PlaceHeap:
    """Requests by (key, order). Removal leaves a tombstone that peek sweeps away.

    When tombstones outnumber the living the heap is rebuilt, so that memory and time
    stay proportional to what is queued (amortised O(log n) an operation).
    """

    __slots__ = ("_heap", "_living")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._living: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._living)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._living

    def __iter__(self) -> Iterator[RequestView]:
        for entry in sorted(self._living.values(), key=lambda entry: entry[:2]):
            yield entry[3]

    def push(self, request: RequestView, key: SortKey, order: int) -> None:
        entry = (key, order, request.request_id, request)
        heapq.heappush(self._heap, entry)
        self._living[request.request_id] = entry

    def peek(self) -> Entry | None:
        heap, living = self._heap, self._living
        while heap:
            entry = heap[0]
            if living.get(entry[2]) is entry:
                return entry
            heapq.heappop(heap)
        return None

    def entry(self, request_id: str) -> Entry:
        """Look an entry up.

        Raises:
            KeyError: There is none of this id.
        """
        return self._living[request_id]

    def remove(self, request_id: str) -> Entry:
        """Take an entry out.

        Raises:
            KeyError: There is none of this id.
        """
        entry = self._living.pop(request_id)
        if len(self._heap) > 2 * len(self._living) + 16:
            self._heap = list(self._living.values())
            heapq.heapify(self._heap)
        return entry
