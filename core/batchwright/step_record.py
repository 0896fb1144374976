"""The circumstances of a plan, for observers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field

from batchwright.messages import SchedulerOutput
from batchwright.request import Request
from batchwright.request_view import RequestView
from batchwright.step_view import StepView


@define(eq=False)
class StepRecord:
    """A plan, its inputs, and the state after it. Valid while ``on_step`` runs.

    Args:
        plan: The plan.
        view: The scheduler after planning.
        budget: Token budget of this step.
        visited: Requests that were visited, with their new tokens before the step. The other
            scheduled requests are the ``num_batched`` of the decode batch: one new token, one
            scheduled token each.
        num_batched: Requests of the decode batch, which were scheduled without a visit.
        new_blocks: Blocks that this step sends along: new ones, or an admitted request's
            table.
        waiting_reasons: Why requests wait, where that changed since the last step; empty: no
            more. A request without a reason, or with an empty one, waits in the queue: behind
            the one in ``stopped_by``, or until the step has room.
        shortage: True if blocks ran out, so that no request was admitted.
        stopped_by: The request that the waiting scan ended at (None: none in particular), and
            why.
        preempted_for: By preempted request, the one that needed its blocks.
    """

    plan: SchedulerOutput
    view: StepView
    budget: int
    visited: Mapping[str, int]
    num_batched: int
    new_blocks: Mapping[str, list[int]]
    waiting_reasons: Mapping[str, str]
    shortage: bool
    stopped_by: tuple[str | None, str]
    preempted_for: Mapping[str, str]
    _admitted: Mapping[str, Request] = field(repr=False)

    @property
    def admitted(self) -> Iterator[RequestView]:
        """Requests that began to run in this step, resumed ones among them."""
        return (request.view for request in self._admitted.values())

    def num_new_tokens(self, request_id: str) -> int:
        """Return the new tokens of a scheduled request before this step."""
        return self.visited.get(request_id, 1)

    def request(self, request_id: str) -> RequestView | None:
        """A live request, or None."""
        return self.view.request(request_id)
