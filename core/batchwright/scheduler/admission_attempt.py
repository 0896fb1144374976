"""An attempt to admit one waiting request."""

from __future__ import annotations

from contextlib import nullcontext

from attrs import define

from batchwright.callers.guard import RequestFault
from batchwright.protocols import PrefixHit
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.making_room import MakingRoom
from batchwright.scheduler.offers import NotNow, Offer, Offers, Outcome
from batchwright.scheduler.policy_preemption import PolicyPreemption
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.verdicts import Reject


@define(eq=False, slots=False)
class AdmissionAttempt:
    """Tries to admit a request.

    It passes the gates, its prefix is looked up, its tokens are cut, it passes the gates
    again now that its size is known, and it gets resources and blocks in one transaction: all
    or none. If it lacks a seat or blocks that others may have to give up, those are chosen
    first and taken out last.

    Args:
        state: The requests, by place.
        offers: Say what it would get.
        ending: Returns what it has reserved, and ends it if a component wishes.
        policy_preemption: Has others give way.
    """

    _state: State
    _offers: Offers
    _ending: Ending
    _policy_preemption: PolicyPreemption

    def run(self, request: Request, step: StepInProgress) -> Outcome:
        """Try to admit a request, and say what came of it."""
        try:
            return self._try(request, step)
        except RequestFault as fault:
            return Reject(fault.detail)

    def _try(self, request: Request, step: StepInProgress) -> Outcome:
        state, room = self._state, None
        if step.seat_from is not None:
            room = self._room_for(request, step.seat_from)
        if not step.bypass.gates:
            with nullcontext() if room is None else room.supposed():
                objection = state.gates.pre_filter(request.view, state.view)
            if objection is not None:
                return self._offers.outcome_of(objection)
        if request.request_id in step.yielded:
            return NotNow("it yielded in this step", len(step.yielded))
        hit = self._offers.lookup(request)
        if room is not None:
            return self._admit_in(room, hit, None)
        offer = self._offers.make(request, hit, step)
        if isinstance(offer, Offer):
            return self._reserve(request) or self._admit(request, offer, step)
        if not isinstance(offer, NotNow) or not offer.lacks_blocks:
            return offer
        if not self._policy_preemption.may_give_room(request):
            return offer
        return self._admit_in(self._room_for(request), hit, offer)

    def _room_for(self, request: Request, seat: Request | None = None) -> MakingRoom:
        return MakingRoom(self._state, self._policy_preemption, request, seat)

    def _admit_in(self, room: MakingRoom, hit: PrefixHit, held: NotNow | None) -> Outcome:
        """Admit a request if others can give it what it lacks; else nothing changes.

        Args:
            room: The newcomer, and those that give way so far.
            hit: The tokens that the prefix cache holds of it.
            held: The outcome if they are not enough; None: as the gates say first.
        """
        request = room.newcomer
        offer = self._offer_in(room, hit, held)
        if not isinstance(offer, Offer):
            return offer
        if (shortage := self._reserve(request)) is not None:
            return shortage
        is_there = room.is_there(offer.hit, offer.need.num_step_blocks)
        if not is_there or self._ending.has_to_end(request):
            self._ending.release_resources(request)
        if request.finish is not None:
            return None
        room.carry_out()
        if not is_there:
            return NotNow("the blocks that it needs come back when a step in flight is done")
        return self._admit(request, self._up_to_date(request, offer), self._state.step)

    def _offer_in(self, room: MakingRoom, hit: PrefixHit, held: NotNow | None) -> Offer | Outcome:
        """Add requests that give way until a newcomer has all that it lacks."""
        request, giving = room.newcomer, self._policy_preemption
        while True:
            if held is None or room.num_blocks:
                supposed_hit = room.supposed_hit(hit)
                with room.supposed():
                    offer = self._offers.make(request, supposed_hit, self._state.step)
                if not isinstance(offer, NotNow) or not offer.lacks_blocks:
                    return offer
                held = held or offer
            if not (giving.may_give_room(request) and room.widen()):
                giving.note_no_room(request)
                return held

    def _up_to_date(self, request: Request, offer: Offer) -> Offer:
        """Return an offer after others gave way: the cache may hold more than was sure."""
        hit = self._offers.lookup(request)
        computed = max(request.num_computed_tokens, hit.num_tokens)
        num_tokens = min(offer.num_tokens, request.num_tokens - computed)
        need = self._state.blocks.need(request, hit, computed + num_tokens)
        return Offer(hit, need, num_tokens)

    def _reserve(self, request: Request) -> Outcome:
        """Reserve the resources of a request; None if it has them all."""
        shortage = self._state.resources.reserve(request.view)
        if shortage is None:
            return None
        if shortage.has_released:
            self._state.has_changed = True
        return self._offers.without_resource(request, shortage.key, shortage.reason)

    def _admit(self, request: Request, offer: Offer, step: StepInProgress) -> Outcome:
        """Give a request its blocks; its resources are reserved."""
        state, ending = self._state, self._ending
        if ending.has_to_end(request):
            ending.release_resources(request)
            return None
        hit, need, num_tokens = offer
        computed = max(request.num_computed_tokens, hit.num_tokens)
        table = state.blocks.admit(request, computed + num_tokens, hit)
        if table is None:
            ending.release_resources(request)
            return self._offers.without_blocks(request)
        num_new_tokens = request.num_tokens - computed
        request.num_computed_tokens = computed
        was_paused = self._start(request, hit, step)
        step.schedule(request, num_tokens, num_new_tokens)
        step.admit(request, table)
        if request.usage is not None:
            request.usage.cached_tokens += hit.num_tokens
            request.usage.change_num_blocks(need.num_step_blocks if was_paused else len(table))
        state.events.on_admit(request.view, hit.num_tokens, need.num_step_blocks)
        ending.has_to_end(request)  # no other request counts on its blocks yet
        return None

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
        request.running_order = state.num_admissions
        state.num_admissions += 1
        state.running[request.request_id] = request
        return state.paused.pop(request.request_id, None) is not None
