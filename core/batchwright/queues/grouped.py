"""Groups ordered by a changing key, their members by a static one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

from batchwright.queues.base import SortKey, Ticket, WaitingQueue, as_sort_key
from batchwright.queues.heap import PlaceHeap

if TYPE_CHECKING:
    from batchwright.request_view import RequestView


class GroupedQueue(WaitingQueue):
    """Serves the group with the smallest key; within it, the smallest member key.

    Tell it with ``rekey_group`` when a group's key has changed: O(log groups),
    whatever the group's size. Ties fall to the group that was there first, then to
    the member that was. A restored or requeued member keeps its place in its group.

    Args:
        group_of: The group of a request; asked once, when it is queued.
        group_key: The key of a group now.
        member_key: The key of a request within its group; stable.
    """

    def __init__(
        self,
        group_of: Callable[[RequestView], Hashable],
        group_key: Callable[[Any], Any],
        member_key: Callable[[RequestView], Any] = lambda _: 0,
    ) -> None:
        super().__init__()
        self._group_of = group_of
        self._group_key = group_key
        self._member_key = member_key
        self._members: dict[Hashable, PlaceHeap] = {}
        self._groups: dict[str, Hashable] = {}
        self._ranks: dict[Hashable, int] = {}
        self._next_rank = 0
        self._order_of: dict[str, int] = {}
        self._heap: list[tuple[SortKey, int, Hashable]] = []
        self._current: dict[Hashable, SortKey] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, request: RequestView) -> bool:
        group = self._groups.get(request.request_id)
        return group in self._members and request.request_id in self._members[group]

    def __iter__(self) -> Iterator[RequestView]:
        for group in sorted(
            self._members, key=lambda group: (self._current[group], self._ranks[group])
        ):
            yield from self._members[group]

    def add(self, request: RequestView) -> None:
        self._push(request, self._order())

    def requeue(self, request: RequestView) -> None:
        order = self._order_of.get(request.request_id)
        self._push(request, self._order() if order is None else order)

    def put_first(self, request: RequestView) -> None:
        self._push(request, self._front())

    def rekey_group(self, group: Hashable) -> None:
        """Ask for a group's key again; no effect while nothing of it is queued."""
        if group in self._members:
            self._place_group(group, as_sort_key(self._group_key(group)))

    def peek(self) -> RequestView | None:
        while self._heap:
            key, rank, group = self._heap[0]
            if self._current.get(group) is key and self._ranks.get(group) == rank:
                entry = self._members[group].peek()
                assert entry is not None, "a group without members has no key"
                return entry[3]
            heapq.heappop(self._heap)
        return None

    def remove(self, request: RequestView) -> Ticket:
        group = self._groups[request.request_id]
        members = self._members[group]
        key, order, _, _ = members.remove(request.request_id)
        self._size -= 1
        if not members:
            del self._members[group], self._current[group], self._ranks[group]
        return Ticket(key, order)

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        group = self._groups[request.request_id]
        self._insert(request, group, ticket.key, ticket.order)

    def forget(self, request: RequestView) -> None:
        self._groups.pop(request.request_id, None)
        self._order_of.pop(request.request_id, None)

    def _push(self, request: RequestView, order: int) -> None:
        group = self._groups.get(request.request_id)
        if group is None:
            group = self._group_of(request)
        self._insert(request, group, as_sort_key(self._member_key(request)), order)
        self._groups[request.request_id] = group
        self._order_of.setdefault(request.request_id, order)

    def _insert(self, request: RequestView, group: Hashable, key: SortKey, order: int) -> None:
        if group not in self._members:
            group_key = as_sort_key(self._group_key(group))
            self._ranks[group] = self._next_rank
            self._next_rank += 1
            self._members[group] = PlaceHeap()
            self._place_group(group, group_key)
        self._members[group].push(request, key, order)
        self._size += 1

    def _place_group(self, group: Hashable, key: SortKey) -> None:
        # A fresh tuple marks older entries of this group in the heap as stale.
        self._current[group] = key = (*key,)
        heapq.heappush(self._heap, (key, self._ranks[group], group))
        if len(self._heap) > 2 * len(self._members) + 16:
            self._heap = [entry for entry in self._heap if self._current.get(entry[2]) is entry[0]]
            heapq.heapify(self._heap)
