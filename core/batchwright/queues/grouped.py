"""Groups ordered by a changing key, their members by a static one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from attrs import define, field

from batchwright.queues.base import SortKey, Ticket, WaitingQueue, as_sort_key
from batchwright.queues.heap import PlaceHeap
from batchwright.request_view import RequestView


@define(eq=False)
class _Group:
    """A group that has live requests.

    Args:
        name: Its name.
        order: Its place among groups of the same key.
        members: Those of its requests that are in the queue.
        num_live: Requests of it that have come and not left for good.
    """

    name: Hashable
    order: int
    members: PlaceHeap[RequestView] = field(factory=PlaceHeap)
    num_live: int = 0


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
        member_key: Callable[[RequestView], Any] = lambda _: 0,
    ) -> None:
        super().__init__()
        self._group_of = group_of
        self._group_key = group_key
        self._member_key = member_key
        self._known: dict[Hashable, _Group] = {}
        self._queued: PlaceHeap[_Group] = PlaceHeap()
        self._of: dict[RequestView, _Group] = {}
        self._next_group = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, request: RequestView) -> bool:
        group = self._of.get(request)
        return group is not None and request in group.members

    def __iter__(self) -> Iterator[RequestView]:
        for group in self._queued:
            yield from group.members

    def peek(self) -> RequestView | None:
        queued = self._queued
        for _ in range(len(queued)):  # each can have grown once since the last look
            group = queued.peek()
            assert group is not None, "it is not empty"
            key = as_sort_key(self._group_key(group.name))
            if key == queued.key(group):
                break
            queued.move(group, key)
        first = queued.peek()
        return first.members.peek() if first is not None else None

    def insert(self, request: RequestView, order: int) -> None:
        group = self._of.get(request)
        if group is None:
            name = self._group_of(request)
            group = self._known.get(name) or _Group(name, self._next_group)
        self._push(request, group, as_sort_key(self._member_key(request)), order)
        if request not in self._of:
            if not group.num_live:
                self._known[group.name] = group
                self._next_group += 1
            group.num_live += 1
            self._of[request] = group

    def remove(self, request: RequestView) -> Ticket:
        group = self._of[request]
        ticket = group.members.remove(request)
        self._size -= 1
        if not group.members:
            self._queued.remove(group)
        return ticket

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        self._push(request, self._of[request], *ticket)

    def forget(self, request: RequestView) -> None:
        super().forget(request)
        group = self._of.pop(request, None)
        if group is not None:
            group.num_live -= 1
            if not group.num_live:
                del self._known[group.name]

    def first_of(self, group: Hashable) -> RequestView | None:
        """The request that a group would be served first by; None if none is queued."""
        known = self._known.get(group)
        return None if known is None else known.members.peek()

    def rekey_group(self, group: Hashable) -> None:
        """Ask for a group's key again; no effect while nothing of it is queued."""
        known = self._known.get(group)
        if known is not None and known.members:
            self._queued.move(known, as_sort_key(self._group_key(group)))

    def _push(self, request: RequestView, group: _Group, key: SortKey, order: int) -> None:
        if not group.members:
            self._queued.push(group, as_sort_key(self._group_key(group.name)), group.order)
        group.members.push(request, key, order)
        self._size += 1
