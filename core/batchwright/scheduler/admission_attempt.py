"""An attempt to admit one waiting request."""

from __future__ import annotations

from attrs import define

from batchwright.callers.gates import Gates, Objection
from batchwright.callers.guard import RequestFault
from batchwright.callers.kv import BlockPool
from batchwright.callers.resources import Resources
from batchwright.protocols import PrefixHit
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.admission_outcome import (
    ADMITTED,
    ENDED,
    Deferred,
    NotNow,
    Outcome,
    Rejected,
)
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.making_room import Giving, MakingRoom
from batchwright.scheduler.offers import Offer, Offers
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress


@define(eq=False, slots=False)
class AdmissionAttempt:
    """Tries to admit a request.

    It passes the gates, its prefix is looked up, its tokens are cut, it passes the gates
    again now that its size is known, and it gets resources and blocks in one transaction: all
    or none. If it lacks a seat or blocks that others may have to give up, those are chosen
    first and taken out last.

    Args:
        state: The requests, by place.
        gates: Asked before its prefix is looked up.
        offers: Say what it would get.
        resources: Reserved with the blocks.
        blocks: The pool.
        ending: Returns what it has reserved, and ends it if a component wishes.
        making_room: Finds requests that give way.
    """

    _state: State
    _gates: Gates
    _offers: Offers
    _resources: Resources
    _blocks: BlockPool
    _ending: Ending
    _making_room: MakingRoom

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
            return self._offers.outcome_of(objection)
        if request.request_id in step.yielded:
            return NotNow("it yielded in this step", len(step.yielded))
        hit = self._offers.lookup(request)
        if giving is not None:
            return self._admit_in_place_of(request, hit, giving, None, step)
        offer = self._offers.make(request, hit, step)
        if isinstance(offer, Offer):
            return self._reserve(request) or self._admit(request, offer, step)
        if isinstance(offer, NotNow) and offer.lacks_blocks and self._making_room.can_help(request):
            giving = self._making_room.begin(None)
            return self._admit_in_place_of(request, hit, giving, offer, step)
        return offer

    def _candidate(
        self, request: Request, giving: Giving | None, step: StepInProgress
    ) -> Objection | None:
        if step.bypass.gates:
            return None
        if giving is None:
            return self._gates.pre_filter(request.view, self._state.view)
        with self._making_room.supposed(giving, step):
            return self._gates.pre_filter(request.view, self._state.view)

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
                    offer = self._offers.make(request, supposed_hit, step)
                if not isinstance(offer, NotNow) or not offer.lacks_blocks:
                    return offer
                held = held or offer
            if not (room.can_help(request) and room.widen(giving, request, step)):
                room.give_up(request)
                return held

    def _up_to_date(self, request: Request, offer: Offer) -> Offer:
        """Return an offer after others gave way: the cache may hold more than was sure."""
        hit = self._offers.lookup(request)
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
        return self._offers.without_room(request, reason, lacks_resource=True)

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
            return self._offers.without_room(
                request, "not enough free KV blocks", lacks_blocks=True
            )
        num_new_tokens = request.num_tokens - computed
        request.num_computed_tokens = computed
        was_paused = self._start(request, hit, step)
        step.schedule(request, num_tokens, num_new_tokens)
        step.admit(request, table)
        if request.usage is not None:
            request.usage.cached_tokens += hit.num_tokens
            request.usage.change_num_blocks(need.num_step_blocks if was_paused else len(table))
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
