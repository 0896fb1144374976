"""The part of a scheduler that only reads."""

from __future__ import annotations

from typing import Any

from batchwright.callers.guard import Guard
from batchwright.clock import Clock
from batchwright.components import Components
from batchwright.context import Sizes
from batchwright.protocols import KVManager
from batchwright.request import Request
from batchwright.scheduler.bell import Bell
from batchwright.scheduler.progress_guard import ProgressGuard
from batchwright.scheduler.services import SchedulerServices
from batchwright.scheduler.state import State
from batchwright.step_view import StepView


class Readings:
    """The read-only half of ``Scheduler``."""

    _state: State
    _guard: Guard
    _progress_guard: ProgressGuard
    _services: SchedulerServices

    @property
    def requests(self) -> dict[str, Request]:
        """Live requests by id; ended ones leave it."""
        return self._state.requests

    @property
    def running(self) -> list[Request]:
        """Running requests in order of admission."""
        return list(self._state.running.values())

    @property
    def num_waiting(self) -> int:
        """Number of waiting requests, those that wait for a key included."""
        return len(self._state.waiting)

    @property
    def kv_manager(self) -> KVManager:
        return self._state.kv

    @property
    def components(self) -> Components:
        return self._state.components

    @property
    def sizes(self) -> Sizes:
        return self._state.sizes

    @property
    def clock(self) -> Clock:
        return self._state.clock

    @property
    def pipeline_depth(self) -> int:
        """Plans that may be in flight at once."""
        return self._state.settings.pipeline_depth

    @property
    def view(self) -> StepView:
        """Counts, live; what components see."""
        return self._state.view

    @property
    def guard(self) -> ProgressGuard:
        return self._progress_guard

    @property
    def has_unfinished(self) -> bool:
        """True while anything lives, is in flight, or is still to be told."""
        state = self._state
        return bool(state.requests or state.in_flight.steps or state.ended)

    @property
    def has_signals(self) -> bool:
        """True if the next step heeds a ``signal``."""
        return bool(self._state.signals)

    @property
    def bell(self) -> Bell:
        """Rings at each signal; what drives the scheduler may sleep on it."""
        return self._state.bell

    @property
    def next_timer(self) -> float | None:
        """Seconds on the clock at which a component wants to be called, or None."""
        return self._state.clock_timers.next_time

    @property
    def fault_counts(self) -> dict[str, int]:
        """Faults that belonged to no request, by component and method."""
        return dict(self._guard.counts)

    @property
    def num_component_faults(self) -> int:
        """Faults of components, those that belonged to a request included."""
        return self._guard.num_about_requests + sum(self._guard.counts.values())

    @property
    def estimator_was_asked(self) -> bool:
        """True if a component has asked ``ctx.estimator``."""
        return self._services.estimator_was_asked

    def summaries(self) -> dict[str, dict[str, Any]]:
        """Return the summaries of observers by name; asked for at the end of a run."""
        return self._state.events.summaries()

    @property
    def slow_calls(self) -> dict[str, float]:
        """Seconds of the slowest call, by component and method, of those that were slow.

        Calls are timed if ``scheduler.slow_component_seconds`` is set.
        """
        return dict(self._guard.slowest)

    def held_blocks(self) -> dict[str, list[int]]:
        """Blocks that ended requests hold until a step in flight is done; for audits."""
        return self._state.in_flight.deferred_blocks()
