"""Steps in which something happens to a request of the decode batch.

A request of the batch computes one token a step. So it is known beforehand when it needs a
block, when it completes one, when it reaches its last token or a component's timer. These
steps are kept here, and a step touches only the requests that something happens to.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from batchwright.counters import SharedCount
    from batchwright.request import Request

NEVER: Final = 1 << 62
"""More steps than there will be."""

_running_order = attrgetter("running_order")


class BlockPhases:
    """Requests by their position within a block.

    The position of all of them advances with one count, so that the place of a request
    depends on its base alone: nothing moves when the count advances.

    Args:
        count: The count that the requests' computed tokens follow.
        block_size: Tokens a block.
    """

    __slots__ = ("_count", "_phases", "block_size")

    def __init__(self, count: SharedCount, block_size: int) -> None:
        self._count = count
        self.block_size = block_size
        self._phases: list[list[Request]] = [[] for _ in range(block_size)]

    def insert(self, request: Request) -> None:
        """Take up a request that follows the count."""
        insort(self._phase(request), request, key=_running_order)

    def remove(self, request: Request) -> None:
        """Take out a request that still follows the count."""
        phase = self._phase(request)
        del phase[bisect_left(phase, request.running_order, key=_running_order)]

    def at(self, position: int) -> list[Request]:
        """Requests whose computed tokens are at a position now, modulo the block size.

        Returns:
            Them in order of admission; do not change the list.
        """
        return self._phases[(self._count.value - position) % self.block_size]

    def at_over(self, position: int, num_steps: int) -> list[Request]:
        """Those of ``at`` now, and after each of the next steps but the last, in a row."""
        start = (self._count.value - position) % self.block_size
        turned = self._phases[start:] + self._phases[:start]
        rounds, rest = divmod(num_steps, self.block_size)
        last = list(chain.from_iterable(turned[:rest]))
        return list(chain.from_iterable(turned)) * rounds + last if rounds else last

    def _phase(self, request: Request) -> list[Request]:
        return self._phases[-request.computed.base % self.block_size]


class DueCounts:
    """Counts at which a request is looked at, each once.

    A request may have left meanwhile: what is kept is its id, so that nothing here keeps an
    ended request alive, and the caller looks at the request itself.
    """

    __slots__ = ("_counts", "_ids")

    def __init__(self) -> None:
        self._ids: dict[int, list[str]] = {}
        self._counts: list[int] = []

    def add(self, count: int, request_id: str) -> None:
        """Have a request looked at when the shared count reaches a later value."""
        ids = self._ids.get(count)
        if ids is None:
            self._ids[count] = ids = []
            heapq.heappush(self._counts, count)
        ids.append(request_id)

    def take(self, count: int) -> list[str]:
        """Take out the ids of requests to look at now."""
        return self._ids.pop(count, [])

    def distance(self, count: int, is_live: Callable[[str], bool]) -> int:
        """Steps from a count until a request that is still there is looked at.

        Those that have left are forgotten.
        """
        while self._counts:
            due = self._counts[0]
            if due > count and any(map(is_live, self._ids.get(due, ()))):
                return due - count
            self._ids.pop(heapq.heappop(self._counts), None)
        return NEVER
