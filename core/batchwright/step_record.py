"""The circumstances of a plan, for observers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from batchwright.messages import SchedulerOutput
from batchwright.read_only import Read
from batchwright.request_view import RequestView

if TYPE_CHECKING:
    from batchwright.scheduler.state import State
    from batchwright.scheduler.step_in_progress import StepInProgress


class StepRecord:
    """A plan, its inputs, and the state after it.

    Attributes:
        plan: The plan.
        view: The scheduler after planning.
        budget: Token budget of this step.
    """

    __slots__ = ("_state", "_step", "plan", "view")

    budget: Read[int] = Read("_step.budget")
    visited: Read[Mapping[str, int]] = Read("_step.num_new_tokens")
    """Requests that were visited, with their new tokens before the step.

    The other scheduled requests are the ``num_batched`` of the decode batch: one new token, one
    scheduled token each.
    """
    num_batched: Read[int] = Read("_step.num_batched")
    """Number of requests of the decode batch, which were scheduled without a visit."""
    new_blocks: Read[Mapping[str, list[int]]] = Read("_step.tables")
    """Blocks that this step sends along: new ones, or an admitted request's table."""
    waiting_reasons: Read[Mapping[str, str]] = Read("_state.waiting.new_reasons")
    """Why requests wait, where that changed since the last step; empty: no more.

    A request without a reason, or with an empty one, waits in the queue: behind the one in
    ``stopped_by``, or until the step has room.
    """
    shortage: Read[bool] = Read("_step.shortage")
    """True if blocks ran out, so that no request was admitted."""
    stopped_by: Read[tuple[str | None, str]] = Read("_step.stopped_by")
    """The request that the waiting scan ended at (None: none in particular), and why."""
    preempted_for: Read[Mapping[str, str]] = Read("_step.preempted_for")
    """By preempted request, the one that needed its blocks."""

    def __init__(self, plan: SchedulerOutput, step: StepInProgress, state: State) -> None:
        self.plan = plan
        self.view = state.view
        self._step = step
        self._state = state

    @property
    def admitted(self) -> Iterator[RequestView]:
        """Requests that began to run in this step, resumed ones among them."""
        return (request.view for request in self._step.admitted.values())

    def num_new_tokens(self, request_id: str) -> int:
        """Return the new tokens of a scheduled request before this step."""
        return self._step.num_new_tokens.get(request_id, 1)

    def request(self, request_id: str) -> RequestView | None:
        """A live request, or None."""
        return self.view.request(request_id)
