"""Verdicts of gates on the waiting requests of vLLM's scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batchwright.callers.gates import Gates, Objection
from batchwright.callers.guard import RequestFault
from batchwright.config import Config
from batchwright.default_plugins import DEFAULT_GATES
from batchwright.protocols import Need, PrefixHit
from batchwright.verdicts import Defer, Reject, Stop, Wait

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from batchwright_vllm.hooks import Hooks

__all__ = ["Admission"]


class Admission:
    """Asks gates about the requests that vLLM's scan comes to.

    The default gate is vLLM's own: it reserves blocks for the whole of a request
    (``scheduler_reserve_full_isl``). A TOML file with gates of its own switches it on or off; else
    vLLM's own setting counts.

    Args:
        hooks: The hooks of vLLM's scheduler.

    Attributes:
        has_gates: True if any gate has to be asked.
        is_bypassed: True if this step is planned without gates.
        num_passed: Requests that were passed over in this step.
    """

    def __init__(self, hooks: Hooks) -> None:
        gates = [gate for gate in hooks.components.gates if gate.name not in DEFAULT_GATES]
        has_own = len(gates) < len(hooks.components.gates)
        if hooks.config.gate != Config().gate:
            hooks.scheduler.scheduler_reserve_full_isl = has_own
        self._hooks = hooks
        self._gates = Gates(gates, hooks.guard)
        self.has_gates = bool(gates)
        self.is_bypassed = False
        self.num_passed = 0
        self.stopped_by: tuple[str | None, str] = (None, "")
        self._hit = PrefixHit()

    def begin(self) -> None:
        """Ask the gates that close a whole step."""
        self.num_passed = 0
        self.stopped_by = (None, "")
        if self.has_gates and not self.is_bypassed and self._hooks.queue:
            closed = self._gates.closed(self._hooks.view)
            if closed:
                self._stop(None, closed)

    def enqueue(self, request: Request) -> None:
        """Ask about a request that arrives; one that is rejected is ended at once."""
        if not self.has_gates:
            return
        view = self._hooks.served[request.request_id].view
        try:
            objection = self._gates.pre_enqueue(view)
        except RequestFault as fault:
            self._hooks.end(request.request_id, fault.detail)
            return
        if objection is not None:
            self._heed(request, objection)

    def may_enter(self, request: Request) -> bool:
        """Ask about the next request, before its prefix is looked up; False: skip it."""
        hooks = self._hooks
        if (
            hooks.is_ending(request.request_id)
            or hooks.preempted.get(request.request_id) == "policy"
        ):
            return False
        if not self.has_gates or self.is_bypassed:
            return True
        served = hooks.served[request.request_id]
        try:
            objection = self._gates.pre_filter(served.view, hooks.view)
        except RequestFault as fault:
            hooks.end(request.request_id, fault.detail)
            return False
        return objection is None or self._heed(request, objection)

    def note_hit(self, blocks: Any, num_tokens: int) -> None:
        """Note what the prefix cache holds of the next request."""
        if self.has_gates:
            table = blocks.blocks[0] if blocks.blocks else ()
            num_idle = sum(block.ref_cnt == 0 for block in table)
            self._hit = PrefixHit(num_tokens, tuple(b.block_id for b in table), num_idle)

    def may_take(self, request: Request, num_computed_tokens: int) -> bool:
        """Ask about the next request, now that its size is known; False: skip it."""
        if not self.has_gates or self.is_bypassed:
            return True
        hooks = self._hooks
        served = hooks.served[request.request_id]
        need = self._need(request, num_computed_tokens)
        try:
            objection = self._gates.filter(served.view, need, self._hit, hooks.view)
        except RequestFault as fault:
            hooks.end(request.request_id, fault.detail)
            return False
        return objection is None or self._heed(request, objection)

    def _need(self, request: Request, num_computed_tokens: int) -> Need:
        size, lookahead = self._hooks.sizes.block_size, self._hooks.sizes.num_lookahead_tokens
        num_new = request.num_tokens - num_computed_tokens
        num_now = num_computed_tokens + min(num_new, self._hooks.view.num_tokens_left)
        used = len(self._hit.block_ids) - self._hit.num_idle_blocks
        num_step = -(-(num_now + lookahead) // size) - used
        num_full = -(-(request.num_tokens + lookahead) // size) - used
        return Need(num_step, num_full)

    def _heed(self, request: Request, objection: Objection) -> bool:
        """Carry out a verdict; returns False, since the request does not enter."""
        hooks, reason = self._hooks, objection.reason
        match objection:
            case Stop():
                self._stop(request.request_id, reason)
            case Defer(until=None):
                self.num_passed += 1
                if self.num_passed > hooks.config.scheduler.scan_window:
                    self._stop(request.request_id, reason)
            case Defer(until=key):
                hooks.queue.set_aside(request, str(key), is_outside=False)
            case Wait(key=key):
                hooks.queue.set_aside(request, key, is_outside=True)
            case Reject():
                hooks.end(request.request_id, reason)
        hooks.queue.note_reason(request.request_id, reason)
        return False

    def _stop(self, request_id: str | None, reason: str) -> None:
        self._hooks.queue.is_closed = True
        self.stopped_by = (request_id, reason)
