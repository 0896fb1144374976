"""The step that is being planned, as the author of a whole scheduler fills it."""

from __future__ import annotations

from attrs import frozen

from batchwright.request_view import RequestView
from batchwright.scheduler.parts import Parts
from batchwright.scheduler.state import State


@frozen(eq=False)
class Step:
    """The actions of ``StepScheduler.plan``. Every budget is kept, whatever they are asked for.

    ``self.view`` has what was decided so far: running requests in order of admission, tokens
    that are left, free blocks.
    """

    _state: State
    _parts: Parts

    def next_waiting(self) -> RequestView | None:
        """Return the request that ``admit`` tries first, by the policy; None if none is queued."""
        request = self._state.waiting.head()
        return request.view if request is not None else None

    def schedule(self, request: RequestView) -> bool:
        """Schedule the new tokens of a running request, as far as budgets and limits allow.

        If blocks run out, the victim is preempted until there are enough; a victim that was
        scheduled in this step is taken out of it. A request that is not running gets nothing.

        Returns:
            False if the request itself was preempted: others would get no blocks either.
        """
        state, goes_on = self._state, True
        mine = state.running.get(request.request_id)
        if mine is not None and request.request_id not in state.step.tokens:
            goes_on = self._parts.running_scan.schedule(mine, state.step)
            if state.to_end:
                self._parts.ending.end_requested(but_planned=True)
        return goes_on

    def admit(self) -> RequestView | None:
        """Admit the first waiting request that seats, gates, budgets and blocks allow.

        Returns:
            It, running and with tokens in this step; None if no request can be admitted.
        """
        step = self._state.step
        before, allowed = len(step.admitted), step.num_admissions_left
        step.stopped_by = (None, "")
        step.num_admissions_left = min(allowed, 1)
        self._parts.waiting_scan.run(step)
        num_admitted = len(step.admitted) - before
        step.num_admissions_left = allowed - num_admitted
        if num_admitted < 1:
            return None
        step.stopped_by = (None, "")
        return next(reversed(step.admitted.values())).view

    def preempt(self, request: RequestView) -> None:
        """Preempt a running request: its blocks are freed, it waits, and is recomputed."""
        mine = self._state.running.get(request.request_id)
        if mine is not None:
            self._parts.preemption.preempt(mine, "policy")

    def hold(self, reason: str) -> None:
        """Note the reason why no further request is admitted in this step, for observers."""
        self._state.step.stopped_by = (None, reason)
