"""Admission to the queue: requests are taken in, or refused if they could never run."""

from __future__ import annotations

from attrs import define, field

from batchwright.callers.guard import RequestFault
from batchwright.exceptions import RequestRefusedError
from batchwright.request import Request
from batchwright.request_checks import field_problem
from batchwright.sampling_params import SamplingParams
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.state import State
from batchwright.verdicts import Wait


@define(eq=False, slots=False)
class Admission:
    """Checks a request once, when it arrives, so that no step has to.

    Args:
        state: The requests, by place.
        ending: Ends a request that the policy failed on.
    """

    _state: State
    _ending: Ending
    _sound: SamplingParams | None = field(init=False, default=None)

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestRefusedError: It could not run even one step; nothing was added.
        """
        is_new, parked = not request.component_data, None
        try:
            problem = field_problem(request) or self._misuse(request) or self._never(request)
            if problem is None:
                self._fill_in(request)
                objection = self._state.gates.pre_enqueue(request.view)
                if isinstance(objection, Wait):
                    parked = objection
                elif objection is not None:
                    problem = objection.reason
        except RequestFault as fault:
            problem = fault.detail
        if problem is not None:
            if is_new:
                request.component_data.clear()
            raise RequestRefusedError(request.request_id, problem)
        self._enqueue(request, parked)

    def _misuse(self, request: Request) -> str | None:
        """Return the reason why this object, or its id, cannot be used now; or None."""
        state = self._state
        if request.request_id in state.requests:
            return "a live request has this id; ids must be unique"
        if request.request_id in state.ended or state.in_flight.last_step_of(request) is not None:
            return (
                "a request of this id has ended, but not been told of, or a step in flight "
                "still computes it; use the id again after the next update"
            )
        if request.component_data or request.finish is not None:
            return "this Request object was added before; make a new one"
        return None

    def _never(self, request: Request) -> str | None:
        """Return the reason why a request could never run, or None."""
        params = request.sampling_params
        if params is not self._sound:  # many requests share one object
            problem = params.problem()
            if problem is not None:
                return problem
            self._sound = params
        state, num_tokens = self._state, request.num_prompt_tokens
        longest = state.sizes.max_model_len - 1
        if num_tokens < 1:
            return "its prompt is empty"
        if num_tokens > longest:
            return (
                f"its prompt of {num_tokens} tokens exceeds max_model_len - 1 = {longest} "
                "(one position is left for an output)"
            )
        blocks = state.blocks
        if not blocks.fits(num_tokens):
            return (
                f"its prompt of {num_tokens} tokens needs "
                f"{blocks.num_blocks_for(num_tokens)} KV blocks and the pool has "
                f"{blocks.kv.num_usable_blocks} usable ones (kv.num_blocks, kv.memory)"
            )
        return state.features.check(request.view) or state.resources.never(request.view)

    def _fill_in(self, request: Request) -> None:
        """Give a request what the scheduler knows and its caller need not."""
        state = self._state
        if request.arrival_time is None:
            request.arrival_time = state.clock.now()
        room = state.sizes.max_model_len - request.num_prompt_tokens
        asked = request.sampling_params.max_tokens
        request.max_tokens = room if asked is None else min(asked, room)
        request.max_total_tokens = request.num_prompt_tokens + request.max_tokens
        request.component_data.extend([None] * state.num_slots)

    def _enqueue(self, request: Request, parked: Wait | None) -> None:
        state = self._state
        state.requests[request.request_id] = request
        state.has_changed = True
        if request.group is not None:
            state.groups.enter(request.group)
        try:
            if state.policy.keeps_accounts:
                request.usage = state.usage.open(state.policy.account(request.view))
            state.waiting.add(request)
        except RequestFault as fault:
            state.waiting.await_answer(request)  # a place to be ended from
            state.events.on_add(request.view)
            self._ending.fail(request, fault)
            return
        if parked is not None:
            state.waiting.park(request, parked.key, parked.reason)
        state.events.on_add(request.view)
