"""Watches that something is always served."""

from __future__ import annotations

import logging

from batchwright.messages import SchedulerOutput
from batchwright.scheduler.state import State

_log = logging.getLogger("batchwright.progress")


class ProgressGuard:
    """Steps in when nothing is computed though something could be.

    Plans that stay empty for ``stall_steps`` steps, with nothing in flight, no alarm
    set and somebody running or queued, mean that choices contradict each other: a
    gate that never opens, a limit of 0, a key that nobody releases. Then skipped
    requests return to the queue, and one step is planned without gates, limits and
    controls. It is logged, counted, and names the request that could not be placed.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._idle_steps = 0
        self._stopped_by: tuple[str | None, str] = (None, "")
        self.num_interventions = 0
        self.last_report = ""

    def steps_in(self) -> bool:
        """Whether the next step is planned without the plugins' choices."""
        if self._idle_steps < self._state.settings.stall_steps:
            return False
        self._state.room.wake_all_skipped()
        self.num_interventions += 1
        self.last_report = self._report()
        _log.warning("%s; gates, limits and controls are bypassed for one step", self.last_report)
        return True

    def after_step(self, plan: SchedulerOutput) -> None:
        """Count steps in which nothing happened though something waits."""
        if plan.num_scheduled_tokens:
            self._idle_steps = 0
            return
        state = self._state
        self._stopped_by = state.draft.stopped_by
        waits = state.running or len(state.room) > state.room.num_parked
        stuck = waits and len(state.fence.flights) <= 1 and not len(state.alarms)
        self._idle_steps = self._idle_steps + 1 if stuck and not state.admission_paused else 0

    def _report(self) -> str:
        state = self._state
        request_id, reason = self._stopped_by
        if request_id is None:
            first = state.room.earliest() or next(iter(state.running.values()), None)
            request_id = first.request_id if first is not None else "?"
            reason = reason or (first.waiting_reason if first is not None else "")
        return (
            f"nothing was scheduled for {self._idle_steps} steps; "
            f"request {request_id!r} could not be placed: {reason or 'granted no tokens'}"
        )
