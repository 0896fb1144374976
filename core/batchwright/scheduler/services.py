"""The services of this scheduler for components."""

from __future__ import annotations

from typing import Any

from batchwright.protocols import Component
from batchwright.request import RequestStatus
from batchwright.request_view import RequestView
from batchwright.scheduler.state import State


class SchedulerServices:
    """The ``RuntimeServices`` of this scheduler: most of them are parts of its state.

    Args:
        state: The requests, by place.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.view = state.view
        self.counts = state.counts
        self.compat = state.compat
        self.usage = state.usage
        self.estimator = state.components.estimator
        self.estimator_was_asked = False
        self.prefix_hit = state.kv.hit_length
        self.predict = state.predictions.of
        self.group_data = state.groups.state
        self.call_at_tokens = state.token_timers.set
        self.signal = state.signal

    def call_at(self, time: float, component: Component, payload: Any) -> None:
        """Have ``component.on_timer(payload)`` called at the first step not before a time."""
        self._state.clock_timers.set(time, (component, payload))

    def end(self, request: RequestView, reason: str) -> None:
        """End a live request with FINISHED_ERROR."""
        self._state.to_end.append((request.request_id, RequestStatus.FINISHED_ERROR, reason))
