"""The beginning of a step: what came in is settled, and the budget is fixed."""

from __future__ import annotations

from batchwright.callers.controls import Controls
from batchwright.callers.timers import Timers
from batchwright.scheduler.progress_guard import Bypass
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress


class StepBeginning:
    """Begins steps.

    Args:
        state: The requests, by place.
        controls: Asked for caps.
        timers: Calls components at a position or a time.
    """

    def __init__(self, state: State, controls: Controls, timers: Timers) -> None:
        self._state = state
        self._controls = controls
        self._timers = timers

    def settle(self, now: float) -> None:
        """Take in what came since the last step: notices, marks, alarms."""
        state = self._state
        state.step.now = now
        while state.notices:
            state.has_changed = True
            state.waiting.wake(*state.notices.popleft())
        if state.marks.reached:
            for component, view, payload in state.marks.due():
                state.has_changed = True
                self._timers.on_tokens(component, view, payload)
        if state.alarms.heap:
            for component, payload in list(state.alarms.ring(now)):
                state.has_changed = True
                self._timers.on_timer(component, payload)
        if state.groups.next_expiry <= now:
            state.groups.purge(now)

    def begin_step(self, bypass: Bypass) -> StepInProgress:
        """Begin a step under the budget and the controls' caps.

        Args:
            bypass: Choices of plugins that this step does without.
        """
        state = self._state
        step = StepInProgress(
            state.settings.max_num_scheduled_tokens,
            state.sizes.max_num_seqs,
            state.step.now,
            bypasses_limits=bypass.limits,
            bypasses_gates=bypass.gates,
        )
        if self._controls and state.requests and not bypass.limits:
            for caps in self._controls.caps(state.view):
                step.cut(caps)
        state.step = step
        return step
