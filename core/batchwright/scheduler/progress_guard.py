"""Watches that something is always served."""

from __future__ import annotations

import logging

from batchwright.messages import SchedulerOutput
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import NO_BYPASS, Bypass

_log = logging.getLogger("batchwright.progress")


class ProgressGuard:
    """Steps in when nothing is computed though something could be.

    Plans that stay empty for ``stall_steps`` steps, with nothing in flight, no clock
    timer set and some request running or queued, mean that choices contradict each other: a
    gate that never opens, a limit of 0, a key that nothing signals. Then deferred
    requests return to the queue, and one step is planned without gates, limits and
    controls. It is logged, counted, and names the request that could not be placed.

    Requests that wait for the outside are left alone: those that wait for a key, and those
    that lack a resource while nothing runs that could give it back. While there are any, no
    gate is overruled, since it may wait for the same; those that lack a resource are looked
    at again.

    Attributes:
        num_interventions: Steps that were planned without the plugins' choices.
        last_report: What the last one was about.
        awaits_resource: Whether the last step was empty, and a request lacks a resource that
            names no key.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._idle_steps = 0
        self._stopped_by: tuple[str | None, str] = (None, "")
        self._is_outside = False
        self.awaits_resource = False
        self.num_interventions = 0
        self.last_report = ""

    @property
    def awaits_outside(self) -> bool:
        """True if the last step was empty, and nothing but an event outside can change that."""
        return self._is_outside and not self._state.running

    def bypass(self) -> Bypass:
        """Return the choices of plugins that the next step does without."""
        state = self._state
        if self._idle_steps < state.settings.stall_steps:
            return NO_BYPASS
        state.waiting.wake_all_deferred()
        if self.awaits_outside:
            self._idle_steps = 0
            return NO_BYPASS
        bypass = Bypass(limits=True, gates=not self._is_outside)
        self.num_interventions += 1
        self.last_report = self._report()
        what = "gates, limits" if bypass.gates else "limits"
        _log.warning("%s; %s and controls are bypassed for one step", self.last_report, what)
        return bypass

    def after_step(self, plan: SchedulerOutput) -> None:
        """Count steps in which nothing happened though something waits."""
        if plan.num_scheduled_tokens:
            self._idle_steps = 0
            self._is_outside = self.awaits_resource = False
            return
        state, waiting = self._state, self._state.waiting
        self._stopped_by = state.step.stopped_by
        self.awaits_resource = state.step.lacks_resource
        self._is_outside = self.awaits_resource or waiting.num_outside > 0
        waits = state.running or len(waiting) > waiting.num_parked
        stuck = waits and len(state.in_flight.steps) <= 1 and not state.clock_timers.heap
        self._idle_steps = self._idle_steps + 1 if stuck and not state.admission_paused else 0

    def _report(self) -> str:
        state = self._state
        request_id, reason = self._stopped_by
        if request_id is None:
            first = state.waiting.earliest() or next(iter(state.running.values()), None)
            request_id = first.request_id if first is not None else "?"
            reason = reason or (first.waiting_reason if first is not None else "")
        return (
            f"nothing was scheduled for {self._idle_steps} steps; "
            f"request {request_id!r} could not be placed: {reason or 'granted no tokens'}"
        )
