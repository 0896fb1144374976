"""Takes requests in, or refuses those that could never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batchwright.exceptions import RequestRefusedError
from batchwright.protocols import Component
from batchwright.protocols.component import overrides
from batchwright.scheduler.faults import RequestFault
from batchwright.verdicts import Admit, Park, Reject

if TYPE_CHECKING:
    from batchwright.request import Request
    from batchwright.scheduler.departures import Departures
    from batchwright.scheduler.state import State


class Intake:
    """Checks a request once, when it arrives, so that no step has to."""

    def __init__(self, state: State, departures: Departures) -> None:
        self._state = state
        self._departures = departures
        self._submitting = tuple(
            gate for gate in state.components.gates if overrides(gate, "submit")
        )

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestRefusedError: It could not run even one step; nothing was added.
        """
        state = self._state
        if request.request_id in state.requests:
            raise RequestRefusedError(
                request.request_id, "a live request has this id; ids must be unique"
            )
        if request.request_id in state.ended or state.fence.last_flight(request) is not None:
            raise RequestRefusedError(
                request.request_id,
                "a request of this id has ended, but not been told of, or a step in flight "
                "still computes it; use the id again after the next update",
            )
        if request.state or request.finish is not None:
            raise RequestRefusedError(
                request.request_id, "this Request object was added before; make a new one"
            )
        problem = self._never(request)
        if problem is not None:
            raise RequestRefusedError(request.request_id, problem)
        self._fill_in(request)
        self._queue(request, self._submit(request))

    def _never(self, request: Request) -> str | None:
        """Why a request could never run, or None."""
        state = self._state
        problem = request.sampling_params.problem()
        if problem is not None:
            return problem
        num_tokens, longest = request.num_prompt_tokens, state.limits.max_model_len - 1
        if num_tokens < 1:
            return "its prompt is empty"
        if num_tokens > longest:
            return (
                f"its prompt of {num_tokens} tokens exceeds max_model_len - 1 = {longest} "
                "(one position is left for an output)"
            )
        if not state.fits_pool(num_tokens):
            return (
                f"its prompt of {num_tokens} tokens needs "
                f"{state.num_blocks_for(num_tokens)} KV blocks and the pool has "
                f"{state.kv.num_usable_blocks} usable ones (kv.num_blocks, kv.memory)"
            )
        for resource in state.components.resources:
            if overrides(resource, "never"):
                problem = self._ask(resource, "never", request)
                if problem is not None:
                    return f"resource {resource.name!r}: {problem}"
        return None

    def _fill_in(self, request: Request) -> None:
        """Give a request what the scheduler knows and its caller need not."""
        state = self._state
        if request.arrival_time is None:
            request.arrival_time = state.clock.now()
        room = state.limits.max_model_len - request.num_prompt_tokens
        asked = request.sampling_params.max_tokens
        request.max_tokens = room if asked is None else min(asked, room)
        request.max_total_tokens = request.num_prompt_tokens + request.max_tokens
        request.state.extend([None] * state.num_slots)

    def _submit(self, request: Request) -> Park | None:
        """Ask the gates that judge arrivals.

        Returns:
            Where the request is parked by one of them, or None.

        Raises:
            RequestRefusedError: A gate rejects it, or fails on it.
        """
        for gate in self._submitting:
            verdict = self._ask(gate, "submit", request)
            match verdict:
                case Admit():
                    continue
                case Park(key=str()):
                    return verdict
                case Reject(reason):
                    why = f"gate {gate.name!r}: {reason}"
                case _:
                    why = (
                        f"{gate.ctx.label}: submit() returned {verdict!r}, "
                        "expected Admit, Reject or Park"
                    )
            request.state.clear()
            raise RequestRefusedError(request.request_id, why)
        return None

    def _ask(self, component: Component, method: str, request: Request) -> Any:
        try:
            return getattr(component, method)(request.view)
        except Exception as error:
            request.state.clear()
            raise RequestRefusedError(
                request.request_id,
                f"{component.ctx.label}: {method}() raised {type(error).__name__}: {error}",
            ) from error

    def _queue(self, request: Request, park: Park | None) -> None:
        state = self._state
        state.requests[request.request_id] = request
        try:
            self._open_account(request)
            state.room.add(request)
        except RequestFault as fault:
            state.room.land(request)  # a place to be ended from
            state.announcer.tell("on_add", request.view)
            self._departures.fail(request, fault)
            return
        if park is not None:
            state.room.park(request, park.key, park.reason)
        state.announcer.tell("on_add", request.view)

    def _open_account(self, request: Request) -> None:
        state = self._state
        if not state.keeps_accounts:
            return
        policy = state.components.policy
        try:
            request.account = state.ledger.open(policy.account(request.view))
        except Exception as error:
            what = f"raised {type(error).__name__}: {error}"
            raise RequestFault(policy, "account", what) from error
