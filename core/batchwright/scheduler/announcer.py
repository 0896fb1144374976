"""Tells components what happened to requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from batchwright.exceptions import OUTSIDE, InvariantError
from batchwright.protocols import Component, Observer
from batchwright.protocols.component import overrides
from batchwright.scheduler.components import Components
from batchwright.scheduler.faults import Faults, RunEndedError, raised, traceback_of

_log = logging.getLogger("batchwright.faults")

_EVENTS = ("on_add", "on_admit", "on_preempt", "on_finish", "on_step", "on_outputs")


class Announcer:
    """Calls those methods that components override, in order of configuration."""

    def __init__(self, components: Components, faults: Faults) -> None:
        self._faults = faults
        self._observers = [c for c in components if isinstance(c, Observer)]
        self._subscribers: dict[str, tuple[tuple[Component, Callable[..., Any]], ...]] = {
            event: tuple(
                (component, getattr(component, event))
                for component in components
                if overrides(component, event)
            )
            for event in _EVENTS
        }

    def wants(self, event: str) -> bool:
        """Whether anybody listens."""
        return bool(self._subscribers[event])

    def tell(self, event: str, *arguments: Any) -> None:
        """Call every subscriber of an event.

        Raises:
            PluginError: A component that is no observer failed too often in a row.
            InvariantError: An observer that checks found a bug.
        """
        faults = self._faults
        for component, method in self._subscribers[event]:
            try:
                if faults.times_calls:
                    faults.call(component, event, arguments, method)
                else:
                    method(*arguments)
            except (InvariantError, RunEndedError, *OUTSIDE):
                raise
            except BaseException as error:
                self._failed(component, event, error)
            else:
                if faults.in_row:
                    faults.clear(component, event)

    def summaries(self) -> dict[str, dict[str, Any]]:
        """Return the summaries of observers by name; a second one of a name is ``NAME-2``.

        One that has seen nothing, or was disabled, has none. A summary that raises, or that JSON
        cannot hold, is a fault of its observer.
        """
        import json  # at the end of a run, of those that have observers

        found: dict[str, dict[str, Any]] = {}
        for observer in self._observers:
            try:
                said = observer.summary()
                if not isinstance(said, Mapping):
                    raise TypeError(f"summary() returned {said!r}, expected a dict")
                said = json.loads(json.dumps(said))
            except OUTSIDE:
                raise
            except BaseException as error:
                self._failed(observer, "summary", error)
                continue
            if said:
                found[_free(observer.name, found)] = said
        return found

    def _failed(self, component: Component, event: str, error: BaseException) -> None:
        what = raised(error, component, event)
        if not isinstance(component, Observer):
            self._faults.strike(component, event, what, error)
            return
        for heard, pairs in self._subscribers.items():
            self._subscribers[heard] = tuple(p for p in pairs if p[0] is not component)
        self._observers = [observer for observer in self._observers if observer is not component]
        where = self._faults.count(component, event)
        message = "%s %s; it is disabled for the rest of the run"
        _log.warning(message, where, what, exc_info=traceback_of(error))


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """The name, or with the first number from 2 on that makes it one of its own."""
    names = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in names if n not in taken)
