"""The second scan of a step: waiting requests are admitted."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from batchwright.protocols import Gate, Need, PrefixHit, Resource
from batchwright.protocols.component import overrides
from batchwright.protocols.kv import NO_HIT
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.departures import Departures
from batchwright.scheduler.faults import RequestFault, demand
from batchwright.scheduler.limiting import limited
from batchwright.scheduler.state import State
from batchwright.scheduler.yielding import Yielding
from batchwright.verdicts import Admit, Park, Reject, Skip, Stop, Verdict


@frozen
class Held:
    """Why a candidate is not admitted, and whether others may pass it.

    Args:
        reason: Shown wherever it is asked why the request waits.
        max_passed: The scan goes on behind it while fewer than this were passed over.
        lacks_blocks: Whether it would be admitted if there were more free blocks.
    """

    reason: str
    max_passed: int = 0
    lacks_blocks: bool = False


_NO_SEAT = "max_num_seqs requests are running"


class WaitingScan:
    """Admits requests as the policy's queue yields them.

    Each one passes the gates, its prefix is looked up, its grant is cut, it passes the
    gates again now that its size is known, and it gets resources and blocks in one
    transaction. The first that gets none ends the scan.
    """

    def __init__(self, state: State, departures: Departures, yielding: Yielding) -> None:
        self._state = state
        self._departures = departures
        self._yielding = yielding
        self._held: Held | None = None
        gates = state.components.gates
        self._scanning = tuple(gate for gate in gates if overrides(gate, "scan"))
        self._judging = tuple(gate for gate in gates if overrides(gate, "candidate"))
        self._sizing = tuple(gate for gate in gates if overrides(gate, "sized"))

    def run(self) -> None:
        """Plan the admissions of this step."""
        state = self._state
        if not state.room.num_in_queue:
            return
        closed = self._closed()
        if closed:
            state.draft.stopped_by = (None, closed)
            return
        num_passed_over = 0
        while (full := self._full()) is None:
            request = state.room.head()
            if request is None:
                break
            held = self._consider(request)
            if held is None:
                continue
            if held.lacks_blocks and self._yielding.displace(request, pause=False):
                continue
            if num_passed_over >= held.max_passed:
                self._stop_at(request, held.reason)
                break
            num_passed_over += 1
            state.room.pass_over(request, held.reason)
            state.draft.passed_over[request.request_id] = held.reason
        else:
            state.draft.stopped_by = (None, full)
        state.room.end_scan()

    def _closed(self) -> str:
        """Why nobody may enter in this step; empty if somebody may."""
        state = self._state
        if state.draft.shortage:
            return "a running request ran out of blocks in this step"
        if state.admission_paused:
            return "admission is paused"
        if state.bypass_choices:
            return ""
        for gate in self._scanning:
            answer = state.faults.ask(
                gate,
                "scan",
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
        no_seat = len(state.running) >= state.limits.max_num_seqs
        if state.draft.num_admissions_left <= 0:
            return _NO_SEAT if no_seat else "a control's cap on admissions is reached"
        if no_seat and not self._yielding.free_seat():
            return _NO_SEAT
        return None

    def _consider(self, request: Request) -> Held | None:
        """Admit a request, put it aside, end it (None), or say why it is held."""
        try:
            return self._try_to_admit(request)
        except RequestFault as fault:
            self._departures.fail(request, fault)
            return None

    def _try_to_admit(self, request: Request) -> Held | None:
        state = self._state
        if self._judging and not self._passes(self._judging, "candidate", request, state.view):
            return self._held
        if request.request_id in state.draft.yielded:
            return Held("it yielded in this step", len(state.draft.yielded))
        hit = NO_HIT if request.request_id in state.paused else self._lookup(request)
        computed = max(request.num_computed_tokens, hit.num_tokens)
        debt = request.num_tokens - computed
        num_tokens, reason = self._grant(request, debt)
        if num_tokens <= 0:
            return Held(reason)
        num_slots = self._num_slots(computed + num_tokens)
        need = self._need(request, hit, num_slots)
        if state.paused and self._reclaim_for(request, need):
            return self._try_to_admit(request)  # what was taken may be hit, or free, now
        if not self._passes(self._sizing, "sized", request, need, hit, state.view):
            return self._held
        if not self._reserve(request):
            return self._held
        new = state.allocate(request, num_slots, computed + num_tokens, hit)
        if new is None:
            self._departures.release_resources(request)
            return Held("not enough free KV blocks", state.settings.backfill, lacks_blocks=True)
        request.num_computed_tokens = computed
        table = state.kv.block_ids(request.view)
        self._admit(request, hit, need, num_tokens, debt, table)
        return None

    def _reclaim_for(self, request: Request, need: Need) -> bool:
        """Take blocks of paused requests if that is what a candidate lacks.

        Returns:
            Whether any were taken.
        """
        kv = self._state.kv
        lacking = need.num_full_blocks - kv.num_free_blocks
        if lacking <= 0:
            return False
        for paused in reversed(self._state.paused.values()):  # in the order in which they go
            if paused is not request:
                lacking -= len(kv.block_ids(paused.view))
            if lacking <= 0:
                return self._departures.reclaim_any(but=request)
        return False

    def _passes(
        self, gates: tuple[Gate, ...], phase: str, request: Request, *arguments: Any
    ) -> bool:
        """Whether all gates of a phase admit; if not, ``_held`` says what follows."""
        if self._state.bypass_choices:
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
                # What does not fit may be passed by what does, if so configured.
                sized = phase == "sized"
                return Held(reason, state.settings.backfill if sized else 0, lacks_blocks=sized)
            case Skip(until=None):
                return Held(reason, state.settings.scan_window)
            case Skip(until=str(key)):
                state.room.skip(request, key, f"{reason} (skipped until {key!r})")
            case Park(key=str(key)):
                state.room.park(request, key, f"{reason} (parked on {key!r})")
            case Reject():
                self._departures.finish(request, RequestStatus.FINISHED_ERROR, reason)
        return None

    def _grant(self, request: Request, debt: int) -> tuple[int, str]:
        """Tokens that a waiting request may get, and why if it gets none."""
        state = self._state
        num_tokens = limited(state, request, debt) if state.components.limits else debt
        if num_tokens <= 0:
            return 0, "a limit allows it no tokens in this step"
        allowance = state.draft.allowance(num_tokens)
        if allowance <= 0:
            return 0, "a control's cap on prefill tokens is reached"
        if allowance < num_tokens and not state.limits.enable_chunked_prefill:
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
        limits = self._state.limits
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
            return Held(reason, self._state.settings.backfill)
        self._state.room.skip(request, key, f"{reason} (skipped until {key!r})")
        return None

    def _admit(
        self,
        request: Request,
        hit: PrefixHit,
        need: Need,
        num_tokens: int,
        debt: int,
        table: list[int],
    ) -> None:
        state = self._state
        state.room.remove(request)
        request.status = RequestStatus.RUNNING
        request.waiting_reason = ""
        was_paused = state.paused.pop(request.request_id, None) is not None
        state.has_changed = True
        if request.num_cached_tokens is None:
            request.num_cached_tokens = hit.num_tokens
            request.scheduled_time = state.now
        state.start_running(request)
        state.draft.grant(request, num_tokens, debt)
        state.draft.admit(request, table)
        if request.account is not None:
            request.account.cached_tokens += hit.num_tokens
            request.account.holds(need.num_step_blocks if was_paused else len(table))
        state.announcer.tell("on_admit", request.view, hit.num_tokens, need.num_step_blocks)

    def _stop_at(self, request: Request, reason: str) -> None:
        self._state.room.hold(request, reason)
        self._state.draft.stopped_by = (request.request_id, reason)


def _is_verdict(answer: object) -> bool:
    return isinstance(answer, Verdict)
