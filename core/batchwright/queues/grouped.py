"""Groups ordered by a changing key, their members by a static one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from batchwright.queues.base import SortKey, Ticket, WaitingQueue, as_sort_key
from batchwright.queues.heap import PlaceHeap
from batchwright.request_view import RequestView


def _same(_request: RequestView) -> int:
    """The key of members that are served as they came."""
    return 0


class GroupedQueue(WaitingQueue):
    """Serve the group with the smallest key; within it, the smallest member key.

    A group's key may grow at any time, as the service that it has received does: the first
    group's is asked for again at each ``peek``. Call ``rekey_group`` when one falls: O(log
    groups), for any size of the group. Ties fall to the group that was there first (and has had
    a live request since), then to the member that was. A restored or requeued member keeps its
    place in its group.

    Args:
        group_of: The group of a request; asked once, when it is queued.
        group_key: The key of a group now; cheap.
        member_key: The key of a request within its group; stable.
    """

    def __init__(
        self,
        group_of: Callable[[RequestView], Hashable],
        group_key: Callable[[Any], Any],
        member_key: Callable[[RequestView], Any] = _same,
    ) -> None:
        super().__init__()
        self._group_of = group_of
        self._group_key = group_key
        self._member_key = member_key
        self._groups: PlaceHeap[Hashable] = PlaceHeap()
        self._next_group = 0
        self._group_orders: dict[Hashable, int] = {}
        self._num_known: dict[Hashable, int] = {}
        self._members: dict[Hashable, PlaceHeap[RequestView]] = {}
        self._group: dict[RequestView, Hashable] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, request: RequestView) -> bool:
        return request in self._members.get(self._group.get(request), ())

    def __iter__(self) -> Iterator[RequestView]:
        for group in self._groups:
            yield from self._members[group]

    def peek(self) -> RequestView | None:
        group = self._first_group()
        return self._members[group].peek() if self._groups else None

    def insert(self, request: RequestView, order: int) -> None:
        is_new = request not in self._group
        group = self._group_of(request) if is_new else self._group[request]
        self._push(request, group, as_sort_key(self._member_key(request)), order)
        if is_new:
            self._group[request] = group
            self._num_known[group] = self._num_known.get(group, 0) + 1

    def remove(self, request: RequestView) -> Ticket:
        group = self._group[request]
        ticket = self._members[group].remove(request)
        self._size -= 1
        if not self._members[group]:
            del self._members[group]
            self._groups.remove(group)
        return ticket

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        self._push(request, self._group[request], *ticket)

    def forget(self, request: RequestView) -> None:
        super().forget(request)
        if request not in self._group:
            return
        group = self._group.pop(request)
        self._num_known[group] -= 1
        if not self._num_known[group]:
            del self._num_known[group], self._group_orders[group]

    def first_of(self, group: Hashable) -> RequestView | None:
        """The request that a group would be served first by; None if none is queued."""
        members = self._members.get(group)
        return None if members is None else members.peek()

    def rekey_group(self, group: Hashable) -> None:
        """Ask for a group's key again; no effect while nothing of it is queued."""
        if group in self._members:
            key = as_sort_key(self._group_key(group))
            self._groups.push(group, key, self._groups.remove(group).order)

    def _first_group(self) -> Hashable:
        """The group with the smallest key now, if only others' keys have grown."""
        groups = self._groups
        for _ in range(len(groups)):  # each can have grown once since the last look
            group = groups.peek()
            key = as_sort_key(self._group_key(group))
            if key == groups.key(group):
                break
            groups.push(group, key, groups.remove(group).order)
        return groups.peek()

    def _push(self, request: RequestView, group: Hashable, key: SortKey, order: int) -> None:
        if group not in self._members:
            group_key = as_sort_key(self._group_key(group))
            if group not in self._group_orders:
                self._group_orders[group] = self._next_group
                self._next_group += 1
            self._groups.push(group, group_key, self._group_orders[group])
            self._members[group] = PlaceHeap()
        self._members[group].push(request, key, order)
        self._size += 1
