"""A plan and the decisions behind it, for observers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from batchwright.messages import SchedulerOutput
from batchwright.request_view import RequestView

if TYPE_CHECKING:
    from batchwright.scheduler.draft import Draft
    from batchwright.scheduler.state import State


class StepRecord:
    """A plan, what it was made from, and the state it left.

    Attributes:
        plan: The plan.
        view: The scheduler after planning.
    """

    __slots__ = ("_draft", "_state", "plan", "view")

    def __init__(self, plan: SchedulerOutput, draft: Draft, state: State) -> None:
        self.plan = plan
        self.view = state.view
        self._draft = draft
        self._state = state

    @property
    def budget(self) -> int:
        """Tokens that could be granted in this step."""
        return self._draft.budget

    @property
    def visited(self) -> Mapping[str, int]:
        """Requests whose grant was decided by a visit, with what they owed (tokens).

        The others that were granted something are the ``num_batched`` of the decode batch: one
        token owed, one token granted.
        """
        return self._draft.debts

    @property
    def num_batched(self) -> int:
        """Requests of the decode batch, which were granted their token without a visit."""
        return self._draft.num_batched

    @property
    def new_blocks(self) -> Mapping[str, list[int]]:
        """Blocks that this step sends along: new ones, or an admitted request's table."""
        return self._draft.tables

    @property
    def waiting_reasons(self) -> Mapping[str, str]:
        """Why requests wait, where that changed since the last step; empty: no more.

        A request that none was ever given for, or an empty one, waits in the queue: behind
        the one in ``stopped_by``, or until the step has room.
        """
        return self._state.room.new_reasons

    @property
    def shortage(self) -> bool:
        """True if blocks ran out, so that no request was admitted."""
        return self._draft.shortage

    @property
    def stopped_by(self) -> tuple[str | None, str]:
        """The request that the waiting scan ended at (None: none in particular), and why."""
        return self._draft.stopped_by

    @property
    def preempted_for(self) -> Mapping[str, str]:
        """By preempted request, the one that needed its blocks."""
        return self._draft.preempted_for

    @property
    def admitted(self) -> Iterator[RequestView]:
        """Requests that began to run in this step, resumed ones among them."""
        return (request.view for request in self._draft.admitted.values())

    def num_new_tokens(self, request_id: str) -> int:
        """Tokens that a granted request owed before this step."""
        return self._draft.debts.get(request_id, 1)

    def request(self, request_id: str) -> RequestView | None:
        """A live request, or None."""
        return self.view.request(request_id)
