"""The second scan of a step: waiting requests are admitted."""

from __future__ import annotations

from attrs import define

from batchwright.request import Request, RequestStatus
from batchwright.scheduler.admission_attempt import AdmissionAttempt
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.offers import Deferred, NotNow, Outcome
from batchwright.scheduler.policy_preemption import PolicyPreemption
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.verdicts import Reject, Wait

_NO_SEAT = "max_num_seqs requests are running"


@define(eq=False, slots=False)
class WaitingScan:
    """Admits waiting requests, as the policy's queue gives them.

    The first that lacks a seat, blocks or tokens ends the scan, unless others may pass it.

    Args:
        state: The requests, by place.
        attempt: Tries to admit one request.
        ending: Ends requests.
        policy_preemption: Asked for a running request that gives up its seat.
    """

    _state: State
    _attempt: AdmissionAttempt
    _ending: Ending
    _policy_preemption: PolicyPreemption

    def run(self, step: StepInProgress) -> None:
        """Plan the admissions of this step."""
        waiting = self._state.waiting
        if not waiting.num_in_queue:
            return
        closed = self._closed(step)
        if self._state.to_end:
            self._ending.end_requested(but_planned=True)
        if closed:
            step.stopped_by = (None, closed)
            return
        while not (full := self._full(step)):
            request = waiting.head()
            if request is None:
                break
            outcome = self._attempt.run(request, step)
            self._carry_out(outcome, request)
            if isinstance(outcome, NotNow) and not self._passes(request, outcome, step):
                break
            if request.status is RequestStatus.RUNNING:
                for passed in step.without_room:
                    passed.num_bypassed += 1
        else:
            step.stopped_by = (None, full)
        if step.passed_over:
            waiting.end_scan()

    def _closed(self, step: StepInProgress) -> str:
        """Return the reason why no request may enter in this step; empty if some may."""
        if step.shortage:
            return "a running request ran out of blocks in this step"
        if self._state.admission_paused:
            return "admission is paused"
        return "" if step.bypass.gates else self._state.gates.closed(self._state.view)

    def _full(self, step: StepInProgress) -> str:
        """Return the cap of the step that is reached, or an empty string."""
        if step.num_tokens_left <= 0:
            return "the step's token budget is used up"
        has_seat = len(self._state.running) < self._state.sizes.max_num_seqs
        if step.num_admissions_left <= 0:
            return "a control's cap on admissions is reached" if has_seat else _NO_SEAT
        step.seat_from = None if has_seat else self._policy_preemption.seat_victim(step)
        return "" if has_seat or step.seat_from is not None else _NO_SEAT

    def _carry_out(self, outcome: Outcome, request: Request) -> None:
        """Put a request aside, or end it, as the outcome says."""
        match outcome:
            case Deferred():
                is_short = outcome.lacks_resource
                self._state.waiting.defer(request, outcome.key, outcome.reason, is_short=is_short)
            case Wait():
                self._state.waiting.park(request, outcome.key, outcome.reason)
            case Reject():
                self._ending.finish(request, RequestStatus.FINISHED_ERROR, outcome.reason)
        self._ending.end_requested(but_planned=True)

    def _passes(self, request: Request, outcome: NotNow, step: StepInProgress) -> bool:
        """Pass over a request that is not admitted now, or stop the scan at it.

        Returns:
            Whether the scan goes on.
        """
        if outcome.lacks_resource:
            step.lacks_resource = True
        if request.finish is not None:
            return True
        if len(step.passed_over) >= outcome.max_passed:
            self._state.waiting.note_reason(request, outcome.reason)
            step.stopped_by = (request.request_id, outcome.reason)
            return False
        self._state.waiting.pass_over(request, outcome.reason)
        step.passed_over[request.request_id] = outcome.reason
        if outcome.lacks_blocks or outcome.lacks_resource:
            step.without_room.append(request)
        return True
