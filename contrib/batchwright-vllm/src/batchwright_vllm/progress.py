"""Steps that are planned without the choices of components, since nothing is computed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchwright_vllm.hooks import Hooks

__all__ = ["Progress"]

_log = logging.getLogger("batchwright.vllm")


class Progress:
    """Bypasses gates, limits and controls for a step if they let nothing be computed.

    Steps that stay empty for ``scheduler.stall_steps`` steps, with nothing in flight, no clock
    timer set and some request running or queued, mean that choices contradict each other.
    Requests that wait for an event outside are left alone.

    Args:
        hooks: The hooks of vLLM's scheduler.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._idle_steps = 0

    def begin(self) -> None:
        """Bypass the choices of components in this step if it is time to."""
        hooks = self._hooks
        is_stalled = self._idle_steps >= hooks.config.scheduler.stall_steps
        hooks.budgets.is_bypassed = hooks.admission.is_bypassed = is_stalled
        if is_stalled:
            self._idle_steps = 0
            hooks.queue.wake_all_deferred()
            _log.warning(
                "nothing was computed for %d steps; this one is planned without gates, limits "
                "and controls (%s)",
                hooks.config.scheduler.stall_steps,
                hooks.admission.stopped_by[1] or "no reason is known",
            )

    def planned(self, num_tokens: int) -> None:
        """Count a step that is empty though something could be computed."""
        hooks = self._hooks
        if num_tokens or hooks.num_in_flight or hooks.clock_timers.heap:
            self._idle_steps = 0
            return
        could_run = len(hooks.queue) > hooks.queue.num_parked or hooks.scheduler.running
        self._idle_steps += bool(could_run and not hooks.view.is_paused)
