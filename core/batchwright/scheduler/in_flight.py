"""Steps in flight, and the blocks that they still touch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from attrs import define, field

from batchwright.messages import SchedulerOutput
from batchwright.protocols import KVManager
from batchwright.protocols.kv import DetachCause
from batchwright.request import Request

BlockTable = tuple[str, list[int]]
"""A request's id and its blocks."""


@define(eq=False)
class InFlightStep:
    """A plan that is not updated yet.

    Args:
        plan: The plan.
        requests: Its requests, in the order of its scheduled tokens. Ids may be reused while
            a plan is in flight; these are the requests that were meant.
        batch: Those of the decode batch, which are the first ones; or None.
        sampling: In a pipeline, ids of those for which a token will be sampled.
        dropped: Ids of those whose answers count no more, since they were computed from
            what a failed step has left.
        returned: Once it is done, the tables that only it kept from the pool.
    """

    plan: SchedulerOutput
    requests: list[Request]
    batch: list[Request] | None = None
    sampling: frozenset[str] | None = None
    dropped: frozenset[str] = frozenset()
    returned: Sequence[BlockTable] = ()


@define(eq=False, slots=False)
class InFlight:
    """Steps in flight; blocks that they touch are freed when they are done.

    Attributes:
        steps: The steps, the oldest first.
        failed_ids: Requests that the last updated step could not compute.
    """

    _kv: KVManager
    steps: deque[InFlightStep] = field(init=False, factory=deque)
    failed_ids: list[str] = field(init=False, factory=list)
    _deferred: dict[int, list[BlockTable]] = field(init=False, factory=dict)

    @property
    def defers_frees(self) -> bool:
        """True while blocks are on their way back to the pool."""
        return bool(self._deferred)

    def last_step_of(self, request: Request) -> InFlightStep | None:
        """Return the newest step in flight that computes a request, or None."""
        for step in reversed(self.steps):
            if request.request_id in step.plan.num_scheduled_tokens:
                return step
        return None

    def free_when_done(self, request: Request, cause: DetachCause) -> int:
        """Free a request's blocks as soon as no step in flight touches them.

        Args:
            request: The request.
            cause: The reason why it loses them.

        Returns:
            The number of blocks that it held.
        """
        block_ids = self._kv.detach(request.view, cause)
        step = self.last_step_of(request) if block_ids else None
        if step is None:
            self._kv.free(block_ids)
        else:
            deferred = self._deferred.setdefault(step.plan.step_id, [])
            deferred.append((request.request_id, block_ids))
        return len(block_ids)

    def take_oldest(self) -> InFlightStep:
        """Take out the step that is done, and free the blocks that only it touched."""
        step = self.steps.popleft()
        if self._deferred:
            step.returned = self._deferred.pop(step.plan.step_id, [])
            for _, block_ids in step.returned:
                self._kv.free(block_ids)
        return step

    def deferred_tables(self) -> Iterator[BlockTable]:
        """Yield the tables that are not freed yet."""
        for tables in self._deferred.values():
            yield from tables

    def deferred_blocks(self) -> dict[str, list[int]]:
        """Return these tables by a name that says for which request and for which step."""
        return {
            f"{request_id}@{step_id}#{index}": block_ids
            for step_id, tables in self._deferred.items()
            for index, (request_id, block_ids) in enumerate(tables)
        }
