"""An attempt to admit one waiting request."""

from __future__ import annotations

from typing import NamedTuple

from batchwright.callers.gates import Gates, Objection
from batchwright.callers.guard import RequestFault
from batchwright.callers.kv import BlockPool
from batchwright.callers.limits import Limits
from batchwright.callers.resources import Resources
from batchwright.protocols import Need, PrefixHit
from batchwright.protocols.kv import NO_HIT
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.admission_outcome import (
    ADMITTED,
    ENDED,
    Deferred,
    NotNow,
    Outcome,
    Parked,
    Rejected,
)
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.making_room import Giving, MakingRoom
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.verdicts import Defer, Reject, Stop, Wait


class Offer(NamedTuple):
    """The tokens, blocks and hit of a request if it is admitted.

    Args:
        hit: The tokens that the prefix cache holds of it.
        need: Blocks that it takes.
        num_tokens: Tokens that are scheduled.
    """

    hit: PrefixHit
    need: Need
    num_tokens: int


class AdmissionAttempt:
    """Tries to admit a request.

    It passes the gates, its prefix is looked up, its tokens are cut, it passes the gates
    again now that its size is known, and it gets resources and blocks in one transaction: all
    or none. If it lacks a seat or blocks that others may have to give up, those are chosen
    first and taken out last.

    Args:
        state: The requests, by place.
        gates: Asked twice.
        limits: Cut its tokens.
        resources: Reserved with the blocks.
        blocks: The pool.
        ending: Returns what it has reserved, and ends it if a component wishes.
        making_room: Finds requests that give way.
    """

    def __init__(
        self,
        state: State,
        gates: Gates,
        limits: Limits,
        resources: Resources,
        blocks: BlockPool,
        ending: Ending,
        making_room: MakingRoom,
    ) -> None:
        self._state = state
        self._gates = gates
        self._limits = limits
        self._resources = resources
        self._blocks = blocks
        self._ending = ending
        self._making_room = making_room
        settings = self._settings = state.settings
        self._most_futile = max(
            settings.max_futile_preemptions, settings.compat.num_futile_preemptions
        )

    def run(self, request: Request, step: StepInProgress) -> Outcome:
        """Try to admit a request, and say what came of it."""
        try:
            return self._try(request, step)
        except RequestFault as fault:
            return Rejected(fault.detail)

    def _try(self, request: Request, step: StepInProgress) -> Outcome:
        giving = self._making_room.begin(step.seat_from) if step.seat_from is not None else None
        objection = self._candidate(request, giving, step)
        if objection is not None:
            return self._object(objection)
        if request.request_id in step.yielded:
            return NotNow("it yielded in this step", len(step.yielded))
        hit = self._lookup(request)
        if giving is not None:
            return self._admit_in_place_of(request, hit, giving, None, step)
        offer = self._offer(request, hit, step)
        if isinstance(offer, Offer):
            return self._reserve(request) or self._admit(request, offer, step)
        if isinstance(offer, NotNow) and offer.lacks_blocks and self._making_room.can_help(request):
            giving = self._making_room.begin(None)
            return self._admit_in_place_of(request, hit, giving, offer, step)
        return offer

    def _candidate(
        self, request: Request, giving: Giving | None, step: StepInProgress
    ) -> Objection | None:
        if step.bypasses_gates:
            return None
        if giving is None:
            return self._gates.pre_filter(request.view, self._state.view)
        with self._making_room.supposed(giving, step):
            return self._gates.pre_filter(request.view, self._state.view)

    def _lookup(self, request: Request) -> PrefixHit:
        is_paused = request.request_id in self._state.paused
        return NO_HIT if is_paused else self._blocks.lookup(request)

    def _offer(self, request: Request, hit: PrefixHit, step: StepInProgress) -> Offer | Outcome:
        """Return what a request would get now, or the outcome if it is not admitted."""
        computed = max(request.num_computed_tokens, hit.num_tokens)
        num_tokens, reason = self._num_tokens(request, request.num_tokens - computed, step)
        if num_tokens <= 0:
            return NotNow(reason)
        need = self._blocks.need(request, hit, computed + num_tokens)
        view = self._state.view
        if not step.bypasses_gates:
            objection = self._gates.filter(request.view, need, hit, view)
            if objection is not None and isinstance(objection.verdict, Stop):
                # What does not fit may be passed by what does, if so configured.
                return self._without_room(request, objection.reason, lacks_blocks=True)
            if objection is not None:
                return self._object(objection)
        if need.num_step_blocks > view.num_free_blocks:
            return self._without_room(request, "not enough free KV blocks", lacks_blocks=True)
        if (step.unfinished or request.num_preemptions) and self._must_fit(request, step):
            wanted = need.num_full_blocks
            if wanted + view.num_owed_blocks > view.num_free_blocks:
                reason = f"preempted again and again, it must fit as a whole: {wanted} blocks"
                return self._without_room(request, reason, lacks_blocks=True)
        return Offer(hit, need, num_tokens)

    def _num_tokens(
        self, request: Request, num_new_tokens: int, step: StepInProgress
    ) -> tuple[int, str]:
        """Return the tokens that a request may get, and the reason if it gets none."""
        num_tokens = num_new_tokens
        if not step.bypasses_limits:
            num_tokens = self._limits.cut(request.view, num_tokens, self._state.view)
        if num_tokens <= 0:
            return 0, "a limit allows it no tokens in this step"
        allowance = step.allowance(num_tokens)
        if allowance <= 0:
            return 0, "a control's cap on prefill tokens is reached"
        if allowance < num_tokens and not self._state.sizes.enable_chunked_prefill:
            return 0, "its prompt does not fit into what is left of the step's budget"
        return allowance, ""

    def _must_fit(self, request: Request, step: StepInProgress) -> bool:
        """Tell whether a request must fit with all of its known tokens.

        It must if it, or one that runs and is half computed, was preempted too often since
        its last output: else they might take each other's blocks for ever.
        """
        most = self._most_futile
        if request.num_preemptions >= most and request.num_futile_preemptions >= most:
            return True
        return any(r.num_futile_preemptions >= most for r in step.unfinished.values())

    def _admit_in_place_of(
        self,
        request: Request,
        hit: PrefixHit,
        giving: Giving,
        held: NotNow | None,
        step: StepInProgress,
    ) -> Outcome:
        """Admit a request if others can give it what it lacks; else nothing changes.

        Args:
            request: The newcomer.
            hit: The tokens that the prefix cache holds of it.
            giving: Those that give way so far.
            held: The outcome if they are not enough; None: as the gates say first.
            step: The step.
        """
        room = self._making_room
        offer = self._offer_by(request, hit, giving, held, step)
        if not isinstance(offer, Offer):
            return offer
        if (shortage := self._reserve(request)) is not None:
            return shortage
        is_there = room.is_there(giving, offer.hit, offer.need.num_step_blocks)
        if not is_there or self._ending.has_to_end(request):
            self._ending.release_resources(request)
        if request.finish is not None:
            return ENDED
        room.carry_out(giving)
        if not is_there:
            return NotNow("the blocks that it needs come back when a step in flight is done")
        return self._admit(request, self._up_to_date(request, offer), step)

    def _offer_by(
        self,
        request: Request,
        hit: PrefixHit,
        giving: Giving,
        held: NotNow | None,
        step: StepInProgress,
    ) -> Offer | Outcome:
        """Add requests that give way until a newcomer has all that it lacks."""
        room = self._making_room
        while True:
            if held is None or giving.num_blocks:
                supposed_hit = room.supposed_hit(giving, hit, step)
                with room.supposed(giving, step):
                    offer = self._offer(request, supposed_hit, step)
                if not isinstance(offer, NotNow) or not offer.lacks_blocks:
                    return offer
                held = held or offer
            if not (room.can_help(request) and room.widen(giving, request, step)):
                room.give_up(request)
                return held

    def _up_to_date(self, request: Request, offer: Offer) -> Offer:
        """Return an offer after others gave way: the cache may hold more than was sure."""
        hit = self._lookup(request)
        computed = max(request.num_computed_tokens, hit.num_tokens)
        num_tokens = min(offer.num_tokens, request.num_tokens - computed)
        return Offer(hit, self._blocks.need(request, hit, computed + num_tokens), num_tokens)

    def _reserve(self, request: Request) -> Outcome | None:
        """Reserve the resources of a request; None if it has them all."""
        shortage = self._resources.reserve(request.view)
        if shortage is None:
            return None
        if shortage.has_released:
            self._state.has_changed = True
        key, reason = shortage.key, shortage.reason
        if key is not None:
            return Deferred(key, f"{reason} (deferred until {key!r})", lacks_resource=True)
        return self._without_room(request, reason, lacks_resource=True)

    def _admit(self, request: Request, offer: Offer, step: StepInProgress) -> Outcome:
        """Give a request its blocks; its resources are reserved."""
        state, ending = self._state, self._ending
        if ending.has_to_end(request):
            ending.release_resources(request)
            return ENDED
        hit, need, num_tokens = offer
        computed = max(request.num_computed_tokens, hit.num_tokens)
        table = self._blocks.admit(request, computed + num_tokens, hit)
        if table is None:
            ending.release_resources(request)
            return self._without_room(request, "not enough free KV blocks", lacks_blocks=True)
        num_new_tokens = request.num_tokens - computed
        request.num_computed_tokens = computed
        was_paused = self._start(request, hit, step)
        step.schedule(request, num_tokens, num_new_tokens)
        step.admit(request, table)
        if request.account is not None:
            request.account.cached_tokens += hit.num_tokens
            request.account.holds(need.num_step_blocks if was_paused else len(table))
        state.events.on_admit(request.view, hit.num_tokens, need.num_step_blocks)
        # One that is ended here leaves the plan: no other request counts on its blocks yet.
        return ENDED if ending.has_to_end(request) else ADMITTED

    def _start(self, request: Request, hit: PrefixHit, step: StepInProgress) -> bool:
        """Let a request run; return whether it had paused."""
        state = self._state
        state.waiting.remove(request)
        request.status = RequestStatus.RUNNING
        request.waiting_reason = ""
        request.num_bypassed = 0
        state.has_changed = True
        if request.num_cached_tokens is None:
            request.num_cached_tokens = hit.num_tokens
            request.scheduled_time = step.now
        state.start_running(request)
        return state.paused.pop(request.request_id, None) is not None

    def _object(self, objection: Objection) -> Outcome:
        """Return the outcome that a gate's objection leads to."""
        verdict, reason = objection
        match verdict:
            case Stop():
                return NotNow(reason)
            case Defer(until=None):
                return NotNow(reason, self._settings.scan_window)
            case Defer(until=key):
                return Deferred(str(key), f"{reason} (deferred until {key!r})")
            case Wait(key=key):
                return Parked(key, f"{reason} (waits for {key!r})")
            case Reject():
                return Rejected(reason)

    def _without_room(
        self,
        request: Request,
        reason: str,
        *,
        lacks_blocks: bool = False,
        lacks_resource: bool = False,
    ) -> NotNow:
        """Return the outcome for want of room; so many may pass it, in a step and in all."""
        settings = self._settings
        max_passed = settings.backfill if request.num_bypassed < settings.max_bypasses else 0
        return NotNow(reason, max_passed, True, lacks_blocks, lacks_resource)
