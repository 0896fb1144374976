"""The second scan of a step: waiting requests are admitted."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

from attrs import frozen

from batchwright.protocols import Gate, Need, PrefixHit, Resource
from batchwright.protocols.component import overrides
from batchwright.protocols.kv import NO_HIT
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.departures import Departures
from batchwright.scheduler.faults import RequestFault, demand
from batchwright.scheduler.limiting import limited
from batchwright.scheduler.making_room import Giving, MakingRoom
from batchwright.scheduler.state import State
from batchwright.scheduler.yielding import Yielding
from batchwright.verdicts import Admit, Defer, Reject, Stop, Verdict, Wait


@frozen
class Held:
    """Why a candidate is not admitted, and whether others may pass it.

    Args:
        reason: Shown wherever it is asked why the request waits.
        max_passed: The scan goes on behind it while fewer than this were passed over.
        lacks_room: Whether it is held for want of blocks, or of a resource.
        lacks_blocks: Whether it would be admitted if there were more free blocks.
    """

    reason: str
    max_passed: int = 0
    lacks_room: bool = False
    lacks_blocks: bool = False


class Offer(NamedTuple):
    """The tokens, blocks and hit of a candidate if it is admitted.

    Args:
        hit: What the prefix cache holds of it.
        need: Blocks that it takes.
        num_tokens: Its grant.
    """

    hit: PrefixHit
    need: Need
    num_tokens: int


_NO_SEAT = "max_num_seqs requests are running"


class WaitingScan:
    """Admits requests as the policy's queue yields them.

    Each one passes the gates, its prefix is looked up, its grant is cut, it passes the
    gates again now that its size is known, and it gets resources and blocks in one
    transaction. The first that gets none ends the scan. If it lacks a seat or blocks that
    others may have to give up, those are chosen first and taken out last.
    """

    def __init__(self, state: State, departures: Departures, yielding: Yielding) -> None:
        self._state = state
        self._departures = departures
        self._yielding = yielding
        self._room = MakingRoom(state, departures, yielding)
        self._held: Held | None = None
        self._seat_from: Request | None = None
        self._most_futile = max(
            state.settings.max_futile_preemptions, state.settings.compat.num_futile_preemptions
        )
        gates = state.components.gates
        self._scanning = tuple(gate for gate in gates if overrides(gate, "open"))
        self._judging = tuple(gate for gate in gates if overrides(gate, "pre_filter"))
        self._sizing = tuple(gate for gate in gates if overrides(gate, "filter"))

    def run(self) -> None:
        """Plan the admissions of this step."""
        state = self._state
        if not state.room.num_in_queue:
            return
        closed = self._closed()
        if state.to_end:
            self._departures.heed_ends(but_planned=True)
        if closed:
            state.draft.stopped_by = (None, closed)
            return
        num_passed_over = 0
        without_room: list[Request] = []
        while (full := self._full()) is None:
            request = state.room.head()
            if request is None:
                break
            held = self._consider(request)
            if state.to_end:
                self._departures.heed_ends(but_planned=True)
            if held is None:
                if without_room and request.status is RequestStatus.RUNNING:
                    self._note_bypass(without_room)
                continue
            if request.finish is not None:
                continue
            if num_passed_over >= held.max_passed:
                self._stop_at(request, held.reason)
                break
            num_passed_over += 1
            state.room.pass_over(request, held.reason)
            state.draft.passed_over[request.request_id] = held.reason
            if held.lacks_room:
                without_room.append(request)
        else:
            state.draft.stopped_by = (None, full)
        state.room.end_scan()

    def _closed(self) -> str:
        """Return the reason why no request may enter in this step; empty if some may."""
        state = self._state
        if state.draft.shortage:
            return "a running request ran out of blocks in this step"
        if state.admission_paused:
            return "admission is paused"
        if state.bypass_gates:
            return ""
        for gate in self._scanning:
            answer = state.faults.ask(
                gate,
                "open",
                (state.view,),
                check=lambda answer: isinstance(answer, bool),
                expected="True (open) or False (closed)",
            )
            if answer is False:
                return f"gate {gate.name!r} is closed"
        return ""

    def _full(self) -> str | None:
        """Which cap of the step is reached, or None."""
        state = self._state
        if state.draft.num_tokens_left <= 0:
            return "the step's token budget is used up"
        no_seat = len(state.running) >= state.sizes.max_num_seqs
        if state.draft.num_admissions_left <= 0:
            return _NO_SEAT if no_seat else "a control's cap on admissions is reached"
        self._seat_from = self._yielding.seat_victim() if no_seat else None
        return _NO_SEAT if no_seat and self._seat_from is None else None

    def _consider(self, request: Request) -> Held | None:
        """Admit a request, put it aside, end it (None), or say why it is held."""
        try:
            return self._try_to_admit(request)
        except RequestFault as fault:
            self._departures.fail(request, fault)
            return None

    def _try_to_admit(self, request: Request) -> Held | None:
        state = self._state
        giving = None if self._seat_from is None else self._room.begin(self._seat_from)
        if self._judging:
            with nullcontext() if giving is None else self._room.supposed(giving):
                if not self._passes(self._judging, "pre_filter", request, state.view):
                    return self._held
        if request.request_id in state.draft.yielded:
            return Held("it yielded in this step", len(state.draft.yielded))
        hit = NO_HIT if request.request_id in state.paused else self._lookup(request)
        held: Held | None = None
        if giving is None:
            offer = self._offer(request, hit)
            if isinstance(offer, Offer):
                return self._admit(request, offer) if self._reserve(request) else self._held
            held = offer
            if held is None or not held.lacks_blocks or not self._room.can_help(request):
                return held
        return self._admit_in_place_of(request, hit, giving or self._room.begin(None), held)

    def _admit_in_place_of(
        self, request: Request, hit: PrefixHit, giving: Giving, held: Held | None
    ) -> Held | None:
        """Admit a request if others can give it what it lacks; else nothing changes.

        Args:
            request: The newcomer.
            hit: What the prefix cache holds of it.
            giving: Those that give way so far.
            held: Why it is held if they are not enough; None: as the gates say first.
        """
        room = self._room
        while True:
            if held is None or giving.num_blocks:
                supposed_hit = room.supposed_hit(giving, hit)
                with room.supposed(giving):
                    offer = self._offer(request, supposed_hit)
                if isinstance(offer, Offer):
                    break
                if offer is None or not offer.lacks_blocks:
                    return offer
                held = held or offer
            if not (room.can_help(request) and room.widen(giving, request)):
                room.give_up(request)
                return held
        if not self._reserve(request):
            return self._held
        is_there = room.is_there(giving, offer.hit, offer.need.num_step_blocks)
        if not is_there or (self._state.to_end and self._departures.has_to_end(request)):
            self._departures.release_resources(request)
        if request.finish is not None:
            return None
        room.carry_out(giving)
        if not is_there:
            return Held("the blocks that it needs come back when a step in flight is done")
        return self._admit(request, self._up_to_date(request, offer))

    def _up_to_date(self, request: Request, offer: Offer) -> Offer:
        """An offer after others have given way: the prefix cache may hold more than was sure."""
        hit = NO_HIT if request.request_id in self._state.paused else self._lookup(request)
        computed = max(request.num_computed_tokens, hit.num_tokens)
        num_tokens = min(offer.num_tokens, request.num_tokens - computed)
        need = self._need(request, hit, self._num_slots(computed + num_tokens))
        return offer._replace(hit=hit, need=need, num_tokens=num_tokens)

    def _offer(self, request: Request, hit: PrefixHit) -> Offer | Held | None:
        """Return what a request would get now, or why it is held; None if put aside or ended."""
        state = self._state
        computed = max(request.num_computed_tokens, hit.num_tokens)
        num_tokens, reason = self._grant(request, request.num_tokens - computed)
        if num_tokens <= 0:
            return Held(reason)
        need = self._need(request, hit, self._num_slots(computed + num_tokens))
        if not self._passes(self._sizing, "filter", request, need, hit, state.view):
            return self._held
        if need.num_step_blocks > state.view.num_free_blocks:
            return self._without_room(request, "not enough free KV blocks", lacks_blocks=True)
        if (state.draft.unfinished or request.num_preemptions) and self._must_fit(request):
            wanted, free = need.num_full_blocks, state.view.num_free_blocks
            if wanted + state.view.num_owed_blocks > free:
                reason = f"preempted again and again, it must fit as a whole: {wanted} blocks"
                return self._without_room(request, reason, lacks_blocks=True)
        return Offer(hit, need, num_tokens)

    def _must_fit(self, request: Request) -> bool:
        """Tell whether a request must fit with all of its known tokens.

        It must if it, or one that runs and is half computed, was preempted too often since
        its last output: else they might take each other's blocks for ever.
        """
        most = self._most_futile
        if request.num_preemptions >= most and request.num_futile_preemptions >= most:
            return True
        unfinished = self._state.draft.unfinished.values()
        return any(other.num_futile_preemptions >= most for other in unfinished)

    def _without_room(self, request: Request, reason: str, *, lacks_blocks: bool) -> Held:
        """Hold a request that lacks room; so many may pass it, in a step and in all."""
        settings = self._state.settings
        may_be_passed = request.num_bypassed < settings.max_bypasses
        return Held(reason, settings.backfill if may_be_passed else 0, True, lacks_blocks)

    def _note_bypass(self, without_room: list[Request]) -> None:
        for passed in without_room:
            passed.num_bypassed += 1

    def _passes(
        self, gates: tuple[Gate, ...], phase: str, request: Request, *arguments: Any
    ) -> bool:
        """Whether all gates of a phase admit; if not, ``_held`` says what follows."""
        if self._state.bypass_gates:
            return True
        for gate in gates:
            verdict = self._state.faults.ask_about(
                request,
                gate,
                phase,
                *arguments,
                check=_is_verdict,
                expected="a Verdict (batchwright.verdicts)",
            )
            if not isinstance(verdict, Admit):
                self._held = self._obey(gate, phase, request, verdict)
                return False
        return True

    def _obey(self, gate: Gate, phase: str, request: Request, verdict: object) -> Held | None:
        state = self._state
        reason = f"gate {gate.name!r}: {getattr(verdict, 'reason', '')}".rstrip(": ")
        match verdict:
            case Stop():
                if phase == "filter":
                    # What does not fit may be passed by what does, if so configured.
                    return self._without_room(request, reason, lacks_blocks=True)
                return Held(reason)
            case Defer(until=None):
                return Held(reason, state.settings.scan_window)
            case Defer(until=str(key)):
                state.room.defer(request, key, f"{reason} (deferred until {key!r})")
            case Wait(key=str(key)):
                state.room.park(request, key, f"{reason} (waits for {key!r})")
            case Reject():
                self._departures.finish(request, RequestStatus.FINISHED_ERROR, reason)
        return None

    def _grant(self, request: Request, num_new_tokens: int) -> tuple[int, str]:
        """Tokens that a waiting request may get, and why if it gets none."""
        state = self._state
        num_tokens = (
            limited(state, request, num_new_tokens) if state.components.limits else num_new_tokens
        )
        if num_tokens <= 0:
            return 0, "a limit allows it no tokens in this step"
        allowance = state.draft.allowance(num_tokens)
        if allowance <= 0:
            return 0, "a control's cap on prefill tokens is reached"
        if allowance < num_tokens and not state.sizes.enable_chunked_prefill:
            return 0, "its prompt does not fit into what is left of the step's budget"
        return allowance, ""

    def _lookup(self, request: Request) -> PrefixHit:
        kv = self._state.kv
        hit = kv.lookup(request.view)
        sound = isinstance(hit, PrefixHit) and 0 <= hit.num_tokens < request.num_tokens
        if not sound:
            expected = f"a PrefixHit of less than {request.num_tokens} tokens"
            demand(sound, kv, "lookup", hit, expected)
        return hit

    def _need(self, request: Request, hit: PrefixHit, num_slots: int) -> Need:
        kv = self._state.kv
        step = kv.num_needed(request.view, num_slots, hit)
        known = request.num_tokens
        full = step if known <= num_slots else kv.num_needed(request.view, known, hit)
        if not (type(step) is type(full) is int):
            demand(False, kv, "num_needed", (step, full), "a number of blocks")
        return Need(step, full)

    def _num_slots(self, num_computed: int) -> int:
        """Positions that need a slot: with lookahead, where the pool has room for it."""
        limits = self._state.sizes
        slots = min(num_computed + limits.num_lookahead_tokens, limits.max_model_len)
        return slots if self._state.fits_pool(slots) else num_computed

    def _reserve(self, request: Request) -> bool:
        """Reserve every resource, or none; then ``_held`` says what follows."""
        for index, resource in enumerate(self._state.components.resources):
            try:
                reserved = self._state.faults.ask_about(
                    request,
                    resource,
                    "reserve",
                    check=lambda answer: isinstance(answer, bool),
                    expected="True or False",
                )
                key = None if reserved else self._key_of(resource, request)
            except RequestFault:
                self._departures.release_resources(request, index)
                raise
            if not reserved:
                self._departures.release_resources(request, index)
                self._held = self._wait_for(resource, key, request)
                return False
        return True

    def _key_of(self, resource: Resource, request: Request) -> str | None:
        return self._state.faults.ask_about(  # type: ignore[no-any-return]
            request,
            resource,
            "waits_for",
            check=lambda key: key is None or isinstance(key, str),
            expected="a key or None",
        )

    def _wait_for(self, resource: Resource, key: str | None, request: Request) -> Held | None:
        reason = f"resource {resource.name!r} is short"
        if key is None:
            self._state.draft.lacks_resource = True
            return self._without_room(request, reason, lacks_blocks=False)
        self._state.room.defer(request, key, f"{reason} (deferred until {key!r})", is_short=True)
        return None

    def _admit(self, request: Request, offer: Offer) -> Held | None:
        """Give a request its blocks; its resources are reserved."""
        state = self._state
        if state.to_end and self._departures.has_to_end(request):
            self._departures.release_resources(request)
            return None
        hit, need, num_tokens = offer.hit, offer.need, offer.num_tokens
        computed = max(request.num_computed_tokens, hit.num_tokens)
        upto = computed + num_tokens
        if state.allocate(request, self._num_slots(upto), upto, hit) is None:
            self._departures.release_resources(request)
            return self._without_room(request, "not enough free KV blocks", lacks_blocks=True)
        num_new_tokens = request.num_tokens - computed
        request.num_computed_tokens = computed
        table = state.kv.block_ids(request.view)
        was_paused = self._start(request, hit)
        state.draft.grant(request, num_tokens, num_new_tokens)
        state.draft.admit(request, table)
        if request.usage is not None:
            request.usage.cached_tokens += hit.num_tokens
            request.usage.change_num_blocks(need.num_step_blocks if was_paused else len(table))
        state.announcer.tell("on_admit", request.view, hit.num_tokens, need.num_step_blocks)
        if state.to_end:
            self._departures.has_to_end(request)  # no other request counts on its blocks yet
        return None

    def _start(self, request: Request, hit: PrefixHit) -> bool:
        """Let a request run; whether it had paused."""
        state = self._state
        state.room.remove(request)
        request.status = RequestStatus.RUNNING
        request.waiting_reason = ""
        request.num_bypassed = 0
        state.has_changed = True
        if request.num_cached_tokens is None:
            request.num_cached_tokens = hit.num_tokens
            request.scheduled_time = state.now
        state.start_running(request)
        return state.paused.pop(request.request_id, None) is not None

    def _stop_at(self, request: Request, reason: str) -> None:
        self._state.room.hold(request, reason)
        self._state.draft.stopped_by = (request.request_id, reason)


def _is_verdict(answer: object) -> bool:
    return isinstance(answer, Verdict)
