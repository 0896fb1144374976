"""The step that is being planned, as the author of a whole scheduler fills it."""

from __future__ import annotations

from attrs import frozen

from batchwright.request_view import RequestView
from batchwright.scheduler.departures import Departures
from batchwright.scheduler.faults import RequestFault
from batchwright.scheduler.running_scan import RunningScan
from batchwright.scheduler.state import State
from batchwright.scheduler.waiting_scan import WaitingScan


@frozen(eq=False)
class Step:
    """What ``StepScheduler.plan`` may do. It keeps every budget, whatever it is asked for.

    What was decided so far can be read from ``self.view``: running requests in order of
    admission, tokens that are left, free blocks.
    """

    _state: State
    _departures: Departures
    _running_scan: RunningScan
    _waiting_scan: WaitingScan

    def next_waiting(self) -> RequestView | None:
        """The request that ``admit`` tries first, by the policy; None if none is queued."""
        request = self._state.room.head()
        return request.view if request is not None else None

    def schedule(self, request: RequestView) -> bool:
        """Give a running request the tokens that it lacks, as far as budgets and limits allow.

        If blocks run out, the victim plugin names a request that gives up its own, until
        there are enough; one of this step is taken out of it. A request that has ended or
        gave way meanwhile gets nothing.

        Returns:
            False if the request had to give way itself: others would get no blocks either.
        """
        state, goes_on = self._state, True
        mine = state.running.get(request.request_id)
        if mine is not None and request.request_id not in state.draft.tokens:
            try:
                goes_on = self._running_scan.serve(mine)
            except RequestFault as fault:
                self._departures.fail(mine, fault)
            if state.to_end:
                self._departures.heed_ends(but_planned=True)
        return goes_on

    def admit(self) -> RequestView | None:
        """Admit the first waiting request that seats, gates, budgets and blocks allow.

        Returns:
            It, running and with tokens in this step; None if no request can be admitted.
        """
        draft = self._state.draft
        before, allowed = len(draft.admitted), draft.num_admissions_left
        draft.stopped_by = (None, "")
        draft.num_admissions_left = min(allowed, 1)
        self._waiting_scan.run()
        num_admitted = len(draft.admitted) - before
        draft.num_admissions_left = allowed - num_admitted
        if num_admitted < 1:
            return None
        draft.stopped_by = (None, "")
        return next(reversed(draft.admitted.values())).view

    def preempt(self, request: RequestView) -> None:
        """Take the blocks of a running request; it waits again, and is recomputed."""
        mine = self._state.running.get(request.request_id)
        if mine is not None:
            self._departures.preempt(mine, "policy")

    def hold(self, reason: str) -> None:
        """Say why no further request is admitted in this step; shown to observers."""
        self._state.draft.stopped_by = (None, reason)
