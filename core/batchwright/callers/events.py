"""Events that components are told of: those of requests, and those of steps."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec

from attrs import define

from batchwright.callers.guard import Guard, RunEndedError, name_of, raised, traceback_of
from batchwright.exceptions import OUTSIDE, InvariantError
from batchwright.protocols import Component, Lifecycle, Observer
from batchwright.protocols.component import defines
from batchwright.protocols.components import Components

_log = logging.getLogger("batchwright.faults")

P = ParamSpec("P")


@define(eq=False, slots=False)
class Event(Generic[P]):
    """One kind of event: calling it tells those that listen, in order of configuration.

    Args:
        guard: Counts faults.
        disable: Called with an observer that raised.
        listeners: Components that override the method, each with its bound method.
    """

    _guard: Guard
    _disable: Callable[[Observer], None]
    listeners: list[tuple[Component, Callable[P, object]]]

    def __bool__(self) -> bool:
        return bool(self.listeners)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call each listener.

        Raises:
            PluginError: A component that is no observer failed too often in a row.
            InvariantError: An observer that checks found a bug.
        """
        guard = self._guard
        for component, method in self.listeners:
            try:
                if guard.times_calls:
                    guard.timed(component, method, *args, **kwargs)
                else:
                    method(*args, **kwargs)
            except (InvariantError, RunEndedError, *OUTSIDE):
                raise
            except BaseException as error:
                _note_fault(component, method, error, guard, self._disable)
            else:
                if guard.in_row:
                    guard.clear(component, name_of(component, method))


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
        self._observers = list(components.observers)
        self._all: list[Event[Any]] = []
        told = [c for c in components if isinstance(c, Lifecycle)]
        self.on_add = self._event([(c, c.on_add) for c in told if defines(c, Lifecycle.on_add)])
        self.on_admit = self._event(
            [(c, c.on_admit) for c in told if defines(c, Lifecycle.on_admit)]
        )
        self.on_preempt = self._event(
            [(c, c.on_preempt) for c in told if defines(c, Lifecycle.on_preempt)]
        )
        self.on_finish = self._event(
            [(c, c.on_finish) for c in told if defines(c, Lifecycle.on_finish)]
        )
        watching = components.observers
        self.on_step = self._event(
            [(c, c.on_step) for c in watching if defines(c, Observer.on_step)]
        )
        self.on_outputs = self._event(
            [(c, c.on_outputs) for c in watching if defines(c, Observer.on_outputs)]
        )

    def summaries(self) -> dict[str, dict[str, Any]]:
        """Return the summaries of observers by name; a second one of a name is ``NAME-2``.

        One that has seen nothing, or was disabled, has none. A summary that raises, or that JSON
        cannot hold, is a fault of its observer.
        """
        found: dict[str, dict[str, Any]] = {}
        for observer in list(self._observers):
            try:
                answer: object = observer.summary()
                if not isinstance(answer, Mapping):
                    raise TypeError(f"summary() returned {answer!r}, expected a dict")
                summary = json.loads(json.dumps(answer))
            except OUTSIDE:
                raise
            except BaseException as error:
                _note_fault(observer, observer.summary, error, self._guard, self._disable)
                continue
            if summary:
                found[_free(observer.name, found)] = summary
        return found

    def _event(self, listeners: list[tuple[Component, Callable[P, object]]]) -> Event[P]:
        event = Event(self._guard, self._disable, listeners)
        self._all.append(event)
        return event

    def _disable(self, observer: Observer) -> None:
        for event in self._all:
            event.listeners = [pair for pair in event.listeners if pair[0] is not observer]
        self._observers = [other for other in self._observers if other is not observer]


def _note_fault(
    component: Component,
    method: Callable[..., object],
    error: BaseException,
    guard: Guard,
    disable: Callable[[Observer], None],
) -> None:
    """Count a fault; an observer is disabled.

    Raises:
        PluginError: A component that is no observer failed too often in a row.
    """
    name = name_of(component, method)
    what = raised(error, component, name)
    if not isinstance(component, Observer):
        guard.count_in_row(component, name, what, error)
        return
    disable(component)
    where = guard.count(component, name)
    message = "%s %s; it is disabled for the rest of the run"
    _log.warning(message, where, what, exc_info=traceback_of(error))


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """Return the name, or with the first number from 2 on that makes it one of its own."""
    names = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in names if n not in taken)
