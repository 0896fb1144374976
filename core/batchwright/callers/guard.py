"""The guard that every call of a component passes.

A fault that belongs to a request ends that request. A fault that belongs to none makes
the step fall back; several in a row end the run. An observer is disabled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, Never, TypeVar, TypeVarTuple

from attrs import define

from batchwright.callers.fault import Fault, RunEndedError, name_of
from batchwright.clock import Clock
from batchwright.exceptions import OUTSIDE, BatchwrightError
from batchwright.protocols import Component
from batchwright.protocols.component import defines

_log = logging.getLogger("batchwright.faults")

Args = TypeVarTuple("Args")
Answer = TypeVar("Answer")
Asked = TypeVar("Asked")
Outcome = TypeVar("Outcome")


class Expected(NamedTuple):
    """The answers that a method may give.

    Args:
        check: Tells whether an answer is one of them.
        words: The same in words, for messages.
    """

    check: Callable[[Any], bool]
    words: str


ANYTHING = Expected(lambda _: True, "anything")
YES_OR_NO = Expected(lambda answer: isinstance(answer, bool), "True or False")
REASON_OR_NONE = Expected(
    lambda answer: answer is None or isinstance(answer, str), "a reason or None"
)


@define
class RequestFault(Exception):  # noqa: N818 (never leaves the scheduler)
    """A component failed on one request; caught where that request is handled."""

    detail: str


class Guard:
    """Calls methods of components, and counts their faults.

    ``ask`` and ``ask_about_request`` take a component, its method, the answers that are expected,
    and the arguments. (The component is named besides the method, since a static method is bound
    to none.)

    Args:
        max_in_row: So many faults of one method in a row end the run.
        slow_after: Seconds after which a call is reported as slow; None: no call is timed.
        clock: What calls are timed by.

    Attributes:
        ask: Calls a method whose fault belongs to no request; returns None then. PluginError:
            it failed too often in a row.
        ask_about_request: Calls a method whose fault belongs to the request that it is asked
            about, and is raised as a RequestFault.
        counts: Faults that belonged to no request, by component and method.
        num_about_requests: Faults that belonged to a request each.
        slowest: Seconds that the slowest call took, of those that were slow.
        in_row: Faults of each method since it worked last, by path and name.
        slow_after: Seconds after which a call is slow.
    """

    def __init__(self, max_in_row: int, slow_after: float | None, clock: Clock) -> None:
        self._max_in_row = max_in_row
        self._clock = clock
        self.slow_after = slow_after
        self.in_row: dict[tuple[str, str], int] = {}
        self.counts: dict[str, int] = {}
        self.num_about_requests = 0
        self.slowest: dict[str, float] = {}
        self.ask = Caller(self, self.count_in_row).call
        self.ask_about_request = Caller(self, self._raise_about_request).call

    def set_up(self, component: Component) -> None:
        """Have a component prepare itself.

        Raises:
            PluginError: It cannot.
        """
        Caller(self, _refuse_start).call(component, component.setup, ANYTHING)

    def close(self, component: Component) -> None:
        """Have a component release what it holds; a fault is counted and logged."""
        Caller(self, self._note_at_end).call(component, component.close, ANYTHING)

    def about_request(self, fault: Fault) -> RequestFault:
        """Count a fault that belongs to a request, and make its exception."""
        self.num_about_requests += 1
        if _log.isEnabledFor(logging.DEBUG):
            fault.log(logging.WARNING)  # which is shown where no handler is set up
        return RequestFault(str(fault))

    def count(self, fault: Fault) -> None:
        """Count a fault that belongs to no request."""
        self.counts[fault.where] = self.counts.get(fault.where, 0) + 1

    def count_in_row(self, fault: Fault) -> None:
        """Count a fault that makes a step fall back.

        Raises:
            PluginError: It is one too many in a row.
        """
        self.count(fault)
        place = (fault.component.ctx.path, fault.name)
        self.in_row[place] = num_faults = self.in_row.get(place, 0) + 1
        fault.log(logging.WARNING, f" (fault {num_faults} in a row)")
        if num_faults >= self._max_in_row:
            end = f"; {num_faults} faults in a row end the run (scheduler.max_component_faults)"
            raise fault.ending_run(end) from fault.__cause__

    def timed(
        self, component: Component, method: Callable[[*Args], Answer], *args: *Args
    ) -> Answer:
        """Call a method, and report it if it is slow."""
        start = self._clock.now()
        try:
            return method(*args)
        finally:
            seconds = self._clock.now() - start
            if seconds > (self.slow_after or 0):
                self._note_slow(f"{component.ctx.label}: {name_of(component, method)}()", seconds)

    def _note_slow(self, where: str, seconds: float) -> None:
        """Keep the slowest call; a warning each time that it has doubled."""
        slowest = self.slowest.get(where, 0.0)
        if seconds >= 2 * slowest:
            message = "%s took %.3g s (scheduler.slow_component_seconds = %g)"
            _log.warning(message, where, seconds, self.slow_after)
        self.slowest[where] = max(slowest, seconds)

    def _raise_about_request(self, fault: Fault) -> Never:
        raise self.about_request(fault) from fault.__cause__

    def _note_at_end(self, fault: Fault) -> None:
        self.count(fault)
        fault.log(logging.ERROR)


@define(eq=False)
class Caller(Generic[Outcome]):
    """Calls methods of components, and checks their answers.

    Args:
        guard: Knows of rows of faults, and times calls.
        on_fault: Called with a fault: raises, or returns what stands for the answer.
    """

    _guard: Guard
    _on_fault: Callable[[Fault], Outcome]

    def call(
        self,
        component: Component,
        method: Callable[[*Args], Answer],
        expected: Expected,
        *args: *Args,
    ) -> Answer | Outcome:
        """Call a component's method, and return its answer if it is one that is expected."""
        guard = self._guard
        try:
            is_timed = guard.slow_after is not None
            answer = guard.timed(component, method, *args) if is_timed else method(*args)
        except (RunEndedError, *OUTSIDE):
            raise
        except BaseException as error:
            return self._on_fault(Fault.raised(component, name_of(component, method), error))
        try:
            is_allowed = expected is ANYTHING or expected.check(answer)
        except OUTSIDE:
            raise
        except BaseException:  # it cannot even be looked at
            is_allowed = False
        if not is_allowed:
            name = name_of(component, method)
            return self._on_fault(Fault.returned(component, name, answer, expected.words))
        if guard.in_row:
            guard.in_row.pop((component.ctx.path, name_of(component, method)), None)
        return answer


def defining(
    components: Iterable[Asked], method: Callable[[Asked, *Args], Answer]
) -> list[tuple[Asked, Callable[[*Args], Answer]]]:
    """Return the components that override a method of their contract, each with its own."""
    return [(c, getattr(c, method.__name__)) for c in components if defines(c, method)]


def _refuse_start(fault: Fault) -> Never:
    if isinstance(fault.__cause__, BatchwrightError):
        raise fault.__cause__
    raise fault.ending_run() from fault.__cause__
