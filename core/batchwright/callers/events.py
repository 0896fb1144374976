"""Events that components are told of: those of requests, of steps, and of their timers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple, cast

from attrs import define

from batchwright.callers.fault import Fault
from batchwright.callers.guard import ANYTHING, Caller, Expected, Guard, defining
from batchwright.exceptions import InvariantError
from batchwright.protocols import Component, Lifecycle, Observer
from batchwright.protocols.components import Components
from batchwright.request_view import RequestView

Args = TypeVarTuple("Args")
Told = TypeVar("Told", bound=Component)

_A_DICT = Expected(lambda answer: isinstance(answer, dict), "a dict")


@define(eq=False)
class Event(Generic[*Args]):
    """One kind of event: calling it tells those that listen, in order of configuration.

    Args:
        listeners: Components that override the method, each with the call of its own.
    """

    listeners: list[tuple[Component, Callable[[*Args], object]]]

    def __call__(self, *args: *Args) -> None:
        """Call each listener.

        Raises:
            PluginError: A component that is no observer failed too often in a row.
            InvariantError: An observer that checks found a bug.
        """
        for _, tell in self.listeners:
            tell(*args)


class Events:
    """All events; only methods that a component overrides are called.

    Attributes:
        on_add: A request was accepted.
        on_admit: A request got its first tokens, or its first ones after a preemption.
        on_preempt: A running request yielded.
        on_finish: A request ended.
        on_step: A plan was made.
        on_outputs: A step's results were committed.
    """

    def __init__(self, components: Components, guard: Guard) -> None:
        self._guard = guard
        self._caller = Caller(guard, self._note)
        self._all: list[Event[*tuple[Any, ...]]] = []
        self._observers = components.observers
        told = [c for c in components if isinstance(c, Lifecycle)]
        self.on_add = self._event(told, Lifecycle.on_add)
        self.on_admit = self._event(told, Lifecycle.on_admit)
        self.on_preempt = self._event(told, Lifecycle.on_preempt)
        self.on_finish = self._event(told, Lifecycle.on_finish)
        self.on_step = self._event(components.observers, Observer.on_step)
        self.on_outputs = self._event(components.observers, Observer.on_outputs)

    def summaries(self) -> dict[str, dict[str, Any]]:
        """Return the summaries of observers by name; a second one of a name is ``NAME-2``.

        One that has seen nothing, or was disabled, has none. A summary that raises, or that JSON
        cannot hold, is a fault of its observer.
        """
        found: dict[str, dict[str, Any]] = {}
        for observer in self._observers:
            if answer := self._caller.call(observer, _through_json(observer.summary), _A_DICT):
                name, number = observer.name, 1
                while name in found:
                    number += 1
                    name = f"{observer.name}-{number}"
                found[name] = answer
        return found

    def _event(self, told: Iterable[Told], method: Callable[[Told, *Args], object]) -> Event[*Args]:
        call = self._caller.call
        event = Event([(c, partial(call, c, own, ANYTHING)) for c, own in defining(told, method)])
        self._all.append(event)
        return event

    def _note(self, fault: Fault) -> None:
        """Count a fault; an observer is disabled.

        Raises:
            PluginError: A component that is no observer failed too often in a row.
            InvariantError: An observer that checks found a bug.
        """
        if isinstance(fault.__cause__, InvariantError):
            raise fault.__cause__
        failed = fault.component
        if not isinstance(failed, Observer):
            self._guard.count_in_row(fault)
            return
        for event in self._all:
            event.listeners = [pair for pair in event.listeners if pair[0] is not failed]
        self._observers = tuple(other for other in self._observers if other is not failed)
        self._guard.count(fault)
        fault.log(logging.WARNING, "; it is disabled for the rest of the run")


class _HasTimers(Protocol):
    def on_tokens(self, request: RequestView, payload: Any) -> None: ...
    def on_timer(self, payload: Any) -> None: ...


@define(eq=False, slots=False)
class Timers:
    """Calls components back; any of them may ask for it, so that the method may be missing."""

    _guard: Guard

    def on_tokens(self, component: Component, request: RequestView, payload: Any) -> None:
        """Tell a component that a position has been computed."""

        def on_tokens() -> None:
            cast("_HasTimers", component).on_tokens(request, payload)

        self._guard.ask(component, on_tokens, ANYTHING)

    def on_timer(self, component: Component, payload: Any) -> None:
        """Tell a component that a time has come."""

        def on_timer() -> None:
            cast("_HasTimers", component).on_timer(payload)

        self._guard.ask(component, on_timer, ANYTHING)


def _through_json(summary: Callable[[], object]) -> Callable[[], Any]:
    @wraps(summary)
    def plain() -> Any:
        return json.loads(json.dumps(summary()))

    return plain
