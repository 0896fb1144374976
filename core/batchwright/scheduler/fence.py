"""Blocks that steps in flight still touch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from attrs import define

from batchwright.decode_batch import BatchStep
from batchwright.messages import SchedulerOutput
from batchwright.protocols import KVManager
from batchwright.protocols.kv import DetachCause
from batchwright.request import Request


@define(eq=False)
class Flight:
    """A plan that is not updated yet.

    Args:
        plan: The plan.
        requests: Its requests, in the order of its grants. Ids may be reused while a
            plan is in flight; these are the requests that were meant.
        batch: The step of the decode batch that is part of it; its requests are the first.
        sampling: In a pipeline, ids of those for which a token will be sampled.
        dropped: Ids of those whose answers count no more, since they were computed from
            what a failed step has left.
        returned: Once it is done, the tables that only it kept from the pool, each with its
            request's id.
    """

    plan: SchedulerOutput
    requests: list[Request]
    batch: BatchStep | None = None
    sampling: frozenset[str] | None = None
    dropped: frozenset[str] = frozenset()
    returned: Sequence[tuple[str, list[int]]] = ()


class Fence:
    """Holds blocks back from the pool until no step in flight touches them."""

    def __init__(self, kv: KVManager) -> None:
        self._kv = kv
        self.flights: deque[Flight] = deque()
        self._held: dict[int, list[tuple[str, list[int]]]] = {}

    @property
    def is_holding(self) -> bool:
        """Whether blocks are on their way back to the pool."""
        return bool(self._held)

    def last_flight(self, request: Request) -> Flight | None:
        """The newest plan in flight that computes a request, or None."""
        for flight in reversed(self.flights):
            if request.request_id in flight.plan.num_scheduled_tokens:
                return flight
        return None

    def release(self, request: Request, cause: DetachCause) -> int:
        """Return a request's blocks to the pool as soon as nothing touches them.

        Args:
            request: The request.
            cause: The reason why it loses them.

        Returns:
            How many it held.
        """
        block_ids = self._kv.detach(request.view, cause)
        flight = self.last_flight(request) if block_ids else None
        if flight is None:
            self._kv.free(block_ids)
        else:
            held = self._held.setdefault(flight.plan.step_id, [])
            held.append((request.request_id, block_ids))
        return len(block_ids)

    def lower(self, step_id: int) -> list[tuple[str, list[int]]]:
        """Note that a step is done: what only it touched returns to the pool.

        Returns:
            The tables that have returned, each with its request's id.
        """
        returned = self._held.pop(step_id, [])
        for _, block_ids in returned:
            self._kv.free(block_ids)
        return returned

    def tables(self) -> Iterator[tuple[str, list[int]]]:
        """Tables held back, each with its request's id."""
        for entries in self._held.values():
            yield from entries

    def held(self) -> dict[str, list[int]]:
        """Blocks held back, by a name that says for which request and for which step."""
        return {
            f"{request_id}@{step_id}#{index}": block_ids
            for step_id, entries in self._held.items()
            for index, (request_id, block_ids) in enumerate(entries)
        }
