"""How a plan came about, for observers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchwright.messages import SchedulerOutput
    from batchwright.request_view import RequestView
    from batchwright.scheduler.draft import Draft
    from batchwright.scheduler.state import State
    from batchwright.step_view import StepView


class StepRecord:
    """A plan, what it was made from, and the state it left.

    Attributes:
        plan: The plan.
        view: The scheduler after planning.
        budget: Tokens that could be granted in this step.
    """

    __slots__ = ("_draft", "_state", "budget", "plan", "view")

    def __init__(self, plan: SchedulerOutput, draft: Draft, state: State) -> None:
        self.plan = plan
        self.view: StepView = state.view
        self.budget = draft.budget
        self._draft = draft
        self._state = state

    def debt(self, request_id: str) -> int:
        """Tokens that a granted request owed before this step."""
        return self._draft.debts.get(request_id, 1)

    @property
    def visited(self) -> Mapping[str, int]:
        """Requests whose grant was decided by a visit, with what they owed (tokens).

        The others that were granted something are ``num_carried`` in steady decode: one
        token owed, one token granted.
        """
        return self._draft.debts

    @property
    def admitted(self) -> Iterator[RequestView]:
        """Requests that began to run in this step, resumed ones among them."""
        return (request.view for request in self._draft.admitted.values())

    @property
    def new_blocks(self) -> Mapping[str, list[int]]:
        """Blocks that this step sends along: new ones, or an admitted request's table."""
        return self._draft.tables

    @property
    def waiting_reasons(self) -> Mapping[str, str]:
        """Why requests wait, where that changed since the last step; empty: no more.

        A request that none was ever given for, or an empty one, waits in the queue:
        behind the one in ``stopped_by``, or until the step has room.
        """
        return self._state.room.new_reasons

    @property
    def shortage(self) -> bool:
        """Whether blocks ran out, so that nobody was admitted."""
        return self._draft.shortage

    @property
    def stopped_by(self) -> tuple[str | None, str]:
        """Whom the waiting scan ended at (None: nobody in particular), and why."""
        return self._draft.stopped_by

    @property
    def passed_over(self) -> dict[str, str]:
        """Requests that the waiting scan passed over, with the reason."""
        return self._draft.passed_over

    @property
    def preempted_for(self) -> dict[str, str]:
        """By preempted request, the one that needed its blocks."""
        return self._draft.preempted_for

    @property
    def left_out(self) -> bool:
        """Whether steady decodes were left out of the running scan (the fast path)."""
        return self._draft.num_carried > 0

    @property
    def num_carried(self) -> int:
        """Requests in steady decode that were granted their token without a visit."""
        return self._draft.num_carried

    def waiting_in_order(self) -> Iterator[RequestView]:
        """Waiting requests in serving order, then skipped and parked ones. O(n log n)."""
        return self._state.room.in_order()

    @property
    def unplaced_blocks(self) -> dict[str, list[int]]:
        """Blocks that ended requests still hold because a step in flight uses them."""
        return self._state.fence.held()

    def request(self, request_id: str) -> RequestView | None:
        """A live request, or None."""
        request = self._state.requests.get(request_id)
        return request.view if request is not None else None
