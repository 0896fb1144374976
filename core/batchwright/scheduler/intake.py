"""Takes requests in, or refuses those that could never run."""

from __future__ import annotations

from batchwright.exceptions import RequestRefusedError
from batchwright.number_bounds import number_problem, shown, span_problem, token_ids_problem
from batchwright.protocols.component import overrides
from batchwright.request import CacheKey, Request
from batchwright.sampling_params import SamplingParams
from batchwright.scheduler.departures import Departures
from batchwright.scheduler.faults import RequestFault
from batchwright.scheduler.state import State
from batchwright.verdicts import Admit, Reject, Wait


class Intake:
    """Checks a request once, when it arrives, so that no step has to."""

    def __init__(self, state: State, departures: Departures) -> None:
        self._state = state
        self._departures = departures
        self._sound: SamplingParams | None = None
        self._submitting = tuple(
            gate for gate in state.components.gates if overrides(gate, "pre_enqueue")
        )

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestRefusedError: It could not run even one step; nothing was added.
        """
        is_new, park = not request.component_data, None
        try:
            problem = _odd_field(request) or self._misuse(request) or self._never(request)
            if problem is None:
                self._fill_in(request)
                problem, park = self._submit(request)
        except RequestFault as fault:
            problem = fault.detail
        if problem is not None:
            if is_new:
                request.component_data.clear()
            raise RequestRefusedError(request.request_id, problem)
        self._queue(request, park)

    def _misuse(self, request: Request) -> str | None:
        """Why this object, or its id, cannot be used now; None if it can."""
        state = self._state
        if request.request_id in state.requests:
            return "a live request has this id; ids must be unique"
        if request.request_id in state.ended or state.fence.last_flight(request) is not None:
            return (
                "a request of this id has ended, but not been told of, or a step in flight "
                "still computes it; use the id again after the next update"
            )
        if request.component_data or request.finish is not None:
            return "this Request object was added before; make a new one"
        return None

    def _never(self, request: Request) -> str | None:
        """Why a request could never run, or None."""
        state = self._state
        params = request.sampling_params
        if params is not self._sound:  # many requests share one object
            problem = params.problem()
            if problem is not None:
                return problem
            self._sound = params
        num_tokens, longest = request.num_prompt_tokens, state.sizes.max_model_len - 1
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
        return self._not_said(request)

    def _not_said(self, request: Request) -> str | None:
        """What a resource or a feature has against a request, or None."""
        state = self._state
        features = {feature.name: feature for feature in state.components.features}
        for name, data in request.features.items():
            if name not in features:
                return f"no feature {name!r} is configured (configured: {sorted(features)})"
            problem = state.faults.ask_about(
                request,
                features[name],
                "check",
                data,
                check=_is_reason,
                expected="a reason or None",
            )
            if problem is not None:
                return f"feature {name!r}: {problem}"
        for resource in state.components.resources:
            problem = state.faults.ask_about(
                request, resource, "never", check=_is_reason, expected="a reason or None"
            )
            if problem is not None:
                return f"resource {resource.name!r}: {problem}"
        return None

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

    def _submit(self, request: Request) -> tuple[str | None, Wait | None]:
        """Ask the gates that judge arrivals.

        Returns:
            Why the request is refused, or None; where it is parked, or None.

        Raises:
            RequestFault: A gate fails on it.
        """
        for gate in self._submitting:
            verdict = self._state.faults.ask_about(
                request,
                gate,
                "pre_enqueue",
                check=lambda verdict: isinstance(verdict, Admit | Reject | Wait),
                expected="Admit, Reject or Wait",
            )
            if isinstance(verdict, Reject):
                return f"gate {gate.name!r}: {verdict.reason}", None
            if isinstance(verdict, Wait):
                reason = f"gate {gate.name!r}: {verdict.reason}".rstrip(": ")
                return None, Wait(verdict.key, f"{reason} (waits for {verdict.key!r})")
        return None, None

    def _queue(self, request: Request, park: Wait | None) -> None:
        state = self._state
        state.requests[request.request_id] = request
        state.has_changed = True
        if request.group is not None:
            state.groups.enter(request.group)
        try:
            if state.keeps_usage:
                request.usage = state.usage.open(
                    state.faults.ask_about(
                        request,
                        state.components.policy,
                        "account",
                        check=_is_hashable,
                        expected="something hashable",
                    )
                )
            state.room.add(request)
        except RequestFault as fault:
            state.room.land(request)  # a place to be ended from
            state.announcer.tell("on_add", request.view)
            self._departures.fail(request, fault)
            return
        if park is not None:
            state.room.park(request, park.key, park.reason)
        state.announcer.tell("on_add", request.view)


def _odd_field(request: Request) -> str | None:
    """Which field holds what a component would choke on in the middle of a step, or None."""
    if not isinstance(request.request_id, str):
        return "request_id must be a string"
    for name in () if request.cache_salt is request.adapter is None else ("cache_salt", "adapter"):
        value = getattr(request, name)
        if value is not None and not _is_text(value):
            return f"{name} must be a string that has a UTF-8 form, not {shown(value)}"
    is_anonymous = request.client is request.group is request.slo_class is None
    for name in () if is_anonymous else ("client", "group", "slo_class"):
        value = getattr(request, name)
        if value is not None and not isinstance(value, str):
            return f"{name} must be a string, not {shown(value)}"
    problem = number_problem("priority", request.priority)
    if problem is None and request.arrival_time is not None:
        problem = number_problem("arrival_time", request.arrival_time)
    if problem is None and request.deadline is not None:
        problem = number_problem("deadline", request.deadline)
    problem = problem or token_ids_problem("eos_token_id", request.eos_token_id)
    return problem or (_odd_key(request) if request.cache_keys else None)


def _odd_key(request: Request) -> str | None:
    """Return the input beyond tokens that no block's identity can hold, described, or None."""
    for key in request.cache_keys:
        if not isinstance(key, CacheKey) or not isinstance(key.identity, bytes):
            return f"cache_keys must hold CacheKey with an identity in bytes, not {shown(key)}"
        problem = span_problem("cache_keys", key.start, key.stop, request.num_prompt_tokens)
        if problem is not None:
            return problem
    return None


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # a lone surrogate, as JSON may bring it
        return False


def _is_reason(answer: object) -> bool:
    return answer is None or isinstance(answer, str)


def _is_hashable(answer: object) -> bool:
    try:
        hash(answer)
    except TypeError:
        return False
    return True
