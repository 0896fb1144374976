"""Preemption: running requests that wait again, with or without their blocks."""

from __future__ import annotations

from attrs import define

from batchwright.callers.guard import RequestFault
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.state import RunningRequests, State
from batchwright.scheduler.step_in_progress import StepInProgress


@define(eq=False, slots=False)
class Preemption:
    """Preempts requests, and queues them again.

    Args:
        state: The requests, by place.
        ending: Ends those that could not come back.
    """

    _state: State
    _ending: Ending

    def victim_for(self, request: Request, among: dict[str, Request] | None = None) -> Request:
        """Return the running request that is preempted for another one.

        Args:
            request: The request that needs something.
            among: Running requests in order of admission, not none; None: all of them.
        """
        state = self._state
        running = state.view.running if among is None else RunningRequests(among)
        return state.running[state.victims.choose(running, request.view, state.view).request_id]

    def preempt(self, request: Request, cause: str) -> None:
        """Make a running request give up its KV and wait again.

        One that could not come back, since the pool is too small for what it knows by
        now, ends instead: length, kv_capacity.
        """
        state = self._state
        if not state.blocks.fits(request.num_tokens):
            self._ending.finish(request, RequestStatus.FINISHED_LENGTH, "kv_capacity")
            return
        lost = request.num_computed_tokens
        kept = state.victims.keep(request.view, state.blocks.table(request))
        self._ending.leave_seat(request)
        self._lose_blocks(request, kept)
        self._wait_preempted(request, cause)
        state.events.on_preempt(request.view, cause, lost - kept)

    def pause(self, request: Request) -> None:
        """Make a running request wait with its blocks, until another one needs them.

        For the executor it is one that is not scheduled for a while.
        """
        state = self._state
        self._ending.leave_seat(request)
        state.paused[request.request_id] = request
        self._wait_preempted(request, "paused")
        state.events.on_preempt(request.view, "paused", 0)

    def reclaim(self, request: Request) -> None:
        """Take the blocks of a paused request; it will be computed again."""
        lost = request.num_computed_tokens
        self._lose_blocks(request, 0)
        self._state.step.yielded[request.request_id] = request  # not admitted by this plan
        self._state.events.on_preempt(request.view, "shortage", lost)

    def reclaim_last(self) -> bool:
        """Take the blocks of the request that paused last, if there is one."""
        paused = self._state.paused
        if not paused:
            return False
        self.reclaim(next(reversed(paused.values())))
        return True

    def preempt_all(self) -> None:
        """Let every request wait again, since nothing that was computed is left."""
        state = self._state
        state.step = StepInProgress(now=state.step.now)
        while state.in_flight.steps:
            state.in_flight.take_oldest()
        while self.reclaim_last():
            pass  # what paused ones hold is lost as well
        for request in reversed(list(state.running.values())):
            self.preempt(request, "executor")
        for request in list(state.requests.values()):
            request.on_executor = False
            request.num_output_placeholders = 0
            if state.waiting.awaits_answer(request):
                self.answered(request)
        state.step = state.idle_step
        state.kv.reset_prefix_cache()

    def answered(self, request: Request) -> None:
        """Queue a preempted request that the last step in flight has answered."""
        self._state.waiting.answered(request)
        self._wait_again(request)

    def _lose_blocks(self, request: Request, num_kept: int) -> None:
        """Give up the blocks of a request; all but the kept tokens are computed again."""
        lost = request.num_computed_tokens
        self._ending.give_up_blocks(request, "preempted")
        request.high_water = max(request.high_water, lost)
        request.num_computed_tokens = num_kept
        request.note_preemption()
        self._state.step.preempted_ids.append(request.request_id)

    def _wait_preempted(self, request: Request, cause: str) -> None:
        request.status = RequestStatus.PREEMPTED
        request.draft_token_ids = []
        request.waiting_reason = f"preempted ({cause})"
        self._state.has_changed = True
        self._wait_again(request)

    def _wait_again(self, request: Request) -> None:
        """Queue a preempted request, once no step in flight will answer it."""
        state = self._state
        if state.in_flight.last_step_of(request) is not None:
            state.waiting.await_answer(request)
            return
        request.num_output_placeholders = 0
        if not state.blocks.fits(request.num_tokens):
            # What was in flight when it yielded has made it outgrow the pool.
            state.waiting.await_answer(request)  # a place to be ended from
            self._ending.finish(request, RequestStatus.FINISHED_LENGTH, "kv_capacity")
            return
        try:
            state.waiting.requeue(request)
        except RequestFault as fault:
            state.waiting.await_answer(request)
            self._ending.fail(request, fault)
