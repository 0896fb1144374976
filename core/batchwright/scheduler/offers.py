"""Offers: the tokens and blocks that a waiting request would get now, or why it gets none."""

from __future__ import annotations

from typing import NamedTuple

from attrs import define, frozen

from batchwright.callers.gates import Objection
from batchwright.protocols import Need, PrefixHit
from batchwright.protocols.kv import NO_HIT
from batchwright.request import Request
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.verdicts import Defer, Reject, Stop, Wait


@frozen
class Deferred:
    """The request is put aside until ``signal(key)``.

    Args:
        key: The key.
        reason: Shown wherever it is asked why the request waits.
        lacks_resource: Whether it waits for a resource that other requests give back.
    """

    key: str
    reason: str
    lacks_resource: bool = False


@frozen
class NotNow:
    """The request keeps its place, and the scan stops, unless others may pass it.

    Args:
        reason: Shown wherever it is asked why the request waits.
        max_passed: The scan goes on behind it while fewer than this were passed over.
        lacks_blocks: Whether it would be admitted if there were more free blocks.
        lacks_resource: Whether it lacks a resource that names no key.
    """

    reason: str
    max_passed: int = 0
    lacks_blocks: bool = False
    lacks_resource: bool = False


Outcome = Reject | Wait | Deferred | NotNow | None
"""The outcome of an attempt to admit a request; None: it runs, or has ended."""


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
    """

    _state: State

    def lookup(self, request: Request) -> PrefixHit:
        """Return what the prefix cache holds of a request that has no blocks."""
        is_paused = request.request_id in self._state.paused
        return NO_HIT if is_paused else self._state.blocks.lookup(request)

    def make(self, request: Request, hit: PrefixHit, step: StepInProgress) -> Offer | Outcome:
        """Return what a request would get now, or the outcome if it is not admitted."""
        state, view = self._state, self._state.view
        computed = max(request.num_computed_tokens, hit.num_tokens)
        num_tokens, reason = self._num_tokens(request, request.num_tokens - computed, step)
        if num_tokens <= 0:
            return NotNow(reason)
        need = state.blocks.need(request, hit, computed + num_tokens)
        if not step.bypass.gates:
            objection = state.gates.filter(request.view, need, hit, view)
            if isinstance(objection, Stop):
                # What does not fit may be passed by what does, if so configured.
                return self.without_blocks(request, objection.reason)
            if objection is not None:
                return self.outcome_of(objection)
        num_free_blocks = view.num_free_blocks
        if need.num_step_blocks > num_free_blocks:
            return self.without_blocks(request)
        if (step.unfinished or request.num_preemptions) and self._must_fit(request, step):
            wanted = need.num_full_blocks
            if wanted + view.num_owed_blocks > num_free_blocks:
                reason = f"preempted again and again, it must fit as a whole: {wanted} blocks"
                return self.without_blocks(request, reason)
        return Offer(hit, need, num_tokens)

    def _num_tokens(
        self, request: Request, num_new_tokens: int, step: StepInProgress
    ) -> tuple[int, str]:
        """Return the tokens that a request may get, and the reason if it gets none."""
        state, num_tokens = self._state, num_new_tokens
        if not step.bypass.limits:
            num_tokens = state.limits.cut(request.view, num_tokens, state.view)
        if num_tokens <= 0:
            return 0, "a limit allows it no tokens in this step"
        allowance = step.allowance(num_tokens)
        if allowance <= 0:
            return 0, "a control's cap on prefill tokens is reached"
        if allowance < num_tokens and not state.sizes.enable_chunked_prefill:
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
        match objection:
            case Stop():
                return NotNow(objection.reason)
            case Defer(until=None):
                return NotNow(objection.reason, self._state.settings.scan_window)
            case Defer(until=key):
                return Deferred(str(key), objection.reason)
            case _:
                return objection

    def without_blocks(self, request: Request, reason: str = "not enough free KV blocks") -> NotNow:
        """Return the outcome for want of blocks."""
        return NotNow(reason, self._max_passed(request), lacks_blocks=True)

    def without_resource(self, request: Request, key: str | None, reason: str) -> Deferred | NotNow:
        """Return the outcome for want of a resource, which may name a key."""
        if key is not None:
            return Deferred(key, f"{reason} (deferred until {key!r})", lacks_resource=True)
        return NotNow(reason, self._max_passed(request), lacks_resource=True)

    def _max_passed(self, request: Request) -> int:
        """Return how many may pass a request without room in a step; it knows how many did."""
        settings = self._state.settings
        return settings.backfill if request.num_bypassed < settings.max_bypasses else 0
