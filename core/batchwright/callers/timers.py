"""Calls at a position or a time that a component has asked for."""

from __future__ import annotations

from typing import Any, Protocol, cast

from attrs import define

from batchwright.callers.guard import ANYTHING, Guard
from batchwright.protocols import Component
from batchwright.request_view import RequestView


class _TokenTimers(Protocol):
    def on_tokens(self, request: RequestView, payload: Any) -> None: ...


class _ClockTimers(Protocol):
    def on_timer(self, payload: Any) -> None: ...


@define(eq=False, slots=False)
class Timers:
    """Calls components back; any of them may ask for it, so that the method may be missing."""

    _guard: Guard

    def on_tokens(self, component: Component, request: RequestView, payload: Any) -> None:
        """Tell a component that a position has been computed."""

        def on_tokens(request: RequestView, payload: Any) -> None:
            cast("_TokenTimers", component).on_tokens(request, payload)

        self._guard.ask(component, on_tokens, ANYTHING, request, payload)

    def on_timer(self, component: Component, payload: Any) -> None:
        """Tell a component that a time has come."""

        def on_timer(payload: Any) -> None:
            cast("_ClockTimers", component).on_timer(payload)

        self._guard.ask(component, on_timer, ANYTHING, payload)
