"""The beginning of a step: what came in is settled, and the budget is fixed."""

from __future__ import annotations

from attrs import define

from batchwright.callers.controls import Controls
from batchwright.callers.events import Timers
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import Bypass, StepInProgress


@define(eq=False, slots=False)
class BeginStep:
    """Begins steps.

    Args:
        state: The requests, by place.
        controls: Asked for caps.
        timers: Calls components at a position or a time.
        ending: Ends requests.
    """

    _state: State
    _controls: Controls
    _timers: Timers
    _ending: Ending

    def settle(self, now: float) -> None:
        """Take in what came since the last step: signals and timers."""
        state = self._state
        state.step.now = now
        while state.signals:
            state.has_changed = True
            state.waiting.wake(state.signals.popleft())
        if state.token_timers.reached:
            for component, view, payload in state.token_timers.take_due():
                state.has_changed = True
                self._timers.on_tokens(component, view, payload)
        if state.clock_timers.heap:
            for component, payload in list(state.clock_timers.take_due(now)):
                state.has_changed = True
                self._timers.on_timer(component, payload)
        if state.groups.next_expiry <= now:
            state.groups.purge(now)

    def begin(self, bypass: Bypass) -> StepInProgress:
        """Begin a step under the budget and the controls' caps.

        Args:
            bypass: Choices of plugins that this step does without.
        """
        state = self._state
        budget, num_seqs = state.settings.max_num_scheduled_tokens, state.sizes.max_num_seqs
        step = StepInProgress(budget, num_seqs, state.step.now, bypass)
        if state.components.controls and state.requests and not bypass.limits:
            for caps in self._controls.caps(state.view):
                step.cut(caps)
        state.step = step
        if state.to_end:
            self._ending.end_requested()
        return step
