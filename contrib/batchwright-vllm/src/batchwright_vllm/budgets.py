"""Caps of controls and limits, applied to the steps of vLLM's scheduler."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from batchwright.callers.controls import Controls
from batchwright.callers.guard import RequestFault
from batchwright.callers.limits import Limits

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from batchwright_vllm.hooks import Hooks

__all__ = ["Budgets"]


class Budgets:
    """Cuts the tokens of a step and of its requests.

    Args:
        hooks: The hooks of vLLM's scheduler.

    Attributes:
        is_needed: True if there is any control, limit or gate: gates read how many tokens are
            left.
        is_bypassed: True if this step is planned without controls and limits.
    """

    def __init__(self, hooks: Hooks) -> None:
        components = hooks.components
        self._hooks = hooks
        self._controls = Controls(components.controls, hooks.guard)
        self._limits = Limits(components.limits, hooks.guard)
        self._has_limits = bool(components.limits)
        self._has_controls = bool(components.controls)
        self.is_needed = self._has_limits or self._has_controls or hooks.admission.has_gates
        self.is_bypassed = False
        self._most_tokens = hooks.scheduler.max_num_scheduled_tokens
        self._most_requests = hooks.scheduler.max_num_active_reqs
        self._prefill_tokens_left = sys.maxsize
        self._decode_tokens_left = sys.maxsize

    def begin(self) -> None:
        """Ask the controls for the caps of this step; called if there is anything to cut."""
        hooks, scheduler = self._hooks, self._hooks.scheduler
        num_tokens, num_admissions = self._most_tokens, sys.maxsize
        self._prefill_tokens_left = self._decode_tokens_left = sys.maxsize
        hooks.budget = num_tokens
        if self._has_controls and not self.is_bypassed:
            for caps in self._controls.caps(hooks.view):
                num_tokens = _least(num_tokens, caps.num_tokens)
                num_admissions = _least(num_admissions, caps.num_admissions)
                prefill, decode = caps.num_prefill_tokens, caps.num_decode_tokens
                self._prefill_tokens_left = _least(self._prefill_tokens_left, prefill)
                self._decode_tokens_left = _least(self._decode_tokens_left, decode)
        hooks.budget = scheduler.max_num_scheduled_tokens = num_tokens
        most = min(self._most_requests, len(scheduler.running) + num_admissions)
        scheduler.max_num_active_reqs = most

    def end(self) -> None:
        """Restore the caps of vLLM's configuration."""
        self._hooks.scheduler.max_num_scheduled_tokens = self._most_tokens
        self._hooks.scheduler.max_num_active_reqs = self._most_requests

    def allowance(self, request: Request, num_new_tokens: int) -> int:
        """Return the tokens that a request gets of those that vLLM would give it."""
        hooks = self._hooks
        if hooks.is_ending(request.request_id):
            return 0
        if self._has_limits and not self.is_bypassed:
            served = hooks.served[request.request_id]
            try:
                num_new_tokens = self._limits.cut(served.view, num_new_tokens, hooks.view)
            except RequestFault as fault:
                hooks.end(request.request_id, fault.detail)
                return 0
        if num_new_tokens > 1:
            num_new_tokens = min(num_new_tokens, self._prefill_tokens_left)
            self._prefill_tokens_left -= num_new_tokens
        elif request.num_computed_tokens:
            num_new_tokens = min(num_new_tokens, self._decode_tokens_left)
            self._decode_tokens_left -= num_new_tokens
        hooks.num_scheduled_tokens += num_new_tokens
        return num_new_tokens


def _least(value: int, cap: Any) -> int:
    return value if cap is None else min(value, int(cap))
