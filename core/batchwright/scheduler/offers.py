"""Offers: the tokens and blocks that a waiting request would get now."""

from __future__ import annotations

from typing import NamedTuple

from attrs import define

from batchwright.callers.gates import Gates, Objection
from batchwright.callers.kv import BlockPool
from batchwright.callers.limits import Limits
from batchwright.protocols import Need, PrefixHit
from batchwright.protocols.kv import NO_HIT
from batchwright.request import Request
from batchwright.scheduler.admission_outcome import Deferred, NotNow, Outcome, Parked, Rejected
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


@define(eq=False, slots=False)
class Offers:
    """Makes offers; nothing is taken for them.

    Args:
        state: The requests, by place.
        gates: Asked once the size of a request is known.
        limits: Cut its tokens.
        blocks: The pool.
    """

    _state: State
    _gates: Gates
    _limits: Limits
    _blocks: BlockPool

    def lookup(self, request: Request) -> PrefixHit:
        """Return what the prefix cache holds of a request that has no blocks."""
        is_paused = request.request_id in self._state.paused
        return NO_HIT if is_paused else self._blocks.lookup(request)

    def make(self, request: Request, hit: PrefixHit, step: StepInProgress) -> Offer | Outcome:
        """Return what a request would get now, or the outcome if it is not admitted."""
        computed = max(request.num_computed_tokens, hit.num_tokens)
        num_tokens, reason = self._num_tokens(request, request.num_tokens - computed, step)
        if num_tokens <= 0:
            return NotNow(reason)
        need = self._blocks.need(request, hit, computed + num_tokens)
        view = self._state.view
        if not step.bypass.gates:
            objection = self._gates.filter(request.view, need, hit, view)
            if objection is not None and isinstance(objection.verdict, Stop):
                # What does not fit may be passed by what does, if so configured.
                return self.without_room(request, objection.reason, lacks_blocks=True)
            if objection is not None:
                return self.outcome_of(objection)
        if need.num_step_blocks > view.num_free_blocks:
            return self.without_room(request, "not enough free KV blocks", lacks_blocks=True)
        if (step.unfinished or request.num_preemptions) and self._must_fit(request, step):
            wanted = need.num_full_blocks
            if wanted + view.num_owed_blocks > view.num_free_blocks:
                reason = f"preempted again and again, it must fit as a whole: {wanted} blocks"
                return self.without_room(request, reason, lacks_blocks=True)
        return Offer(hit, need, num_tokens)

    def _num_tokens(
        self, request: Request, num_new_tokens: int, step: StepInProgress
    ) -> tuple[int, str]:
        """Return the tokens that a request may get, and the reason if it gets none."""
        num_tokens = num_new_tokens
        if not step.bypass.limits:
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
        settings = self._state.settings
        most = max(settings.max_futile_preemptions, self._state.compat.num_futile_preemptions)
        if request.num_preemptions >= most and request.num_futile_preemptions >= most:
            return True
        return any(r.num_futile_preemptions >= most for r in step.unfinished.values())

    def outcome_of(self, objection: Objection) -> Outcome:
        """Return the outcome that a gate's objection leads to."""
        verdict, reason = objection
        match verdict:
            case Stop():
                return NotNow(reason)
            case Defer(until=None):
                return NotNow(reason, self._state.settings.scan_window)
            case Defer(until=key):
                return Deferred(str(key), f"{reason} (deferred until {key!r})")
            case Wait(key=key):
                return Parked(key, f"{reason} (waits for {key!r})")
            case Reject():
                return Rejected(reason)

    def without_room(
        self,
        request: Request,
        reason: str,
        *,
        lacks_blocks: bool = False,
        lacks_resource: bool = False,
    ) -> NotNow:
        """Return the outcome for want of room; so many may pass it, in a step and in all."""
        settings = self._state.settings
        max_passed = settings.backfill if request.num_bypassed < settings.max_bypasses else 0
        return NotNow(reason, max_passed, True, lacks_blocks, lacks_resource)
