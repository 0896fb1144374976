"""The guard that every call of a component passes.

A fault that belongs to a request ends that request. A fault that belongs to none makes
the step fall back; several in a row end the run. An observer is disabled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import getattr_static
from typing import Any, NamedTuple, ParamSpec, TypeVar

from batchwright.callers.fault_place import place_of_answer, place_of_error
from batchwright.clock import Clock
from batchwright.exceptions import OUTSIDE, PluginError
from batchwright.protocols import Component

_log = logging.getLogger("batchwright.faults")

P = ParamSpec("P")
T = TypeVar("T")


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


class RequestFault(Exception):  # noqa: N818 (never leaves the scheduler)
    """A component failed on one request; caught where that request is handled."""

    def __init__(self, component: Component, method: str, what: str) -> None:
        self.detail = f"{component.ctx.label}: {method}() {what}"
        super().__init__(self.detail)


class RunEndedError(PluginError):
    """A component failed too often in a row; no handler on the way takes it for its own."""


class Guard:
    """Calls methods of components, and counts the faults that belong to no request.

    A call names its component besides the method, since a static method is bound to none.

    Args:
        max_in_row: So many of one component in a row end the run.
        slow_after: Seconds after which a call is reported as slow; None: no call is timed.
        clock: What calls are timed by.

    Attributes:
        counts: Faults that belonged to no request, by component and method.
        in_row: Those of each method since it worked last, by path and name; ``clear`` ends
            a row.
        times_calls: Whether calls are timed.
        num_about_requests: Faults that belonged to a request each.
        slowest: Seconds that the slowest call took, of those that were slow.
    """

    def __init__(self, max_in_row: int, slow_after: float | None, clock: Clock) -> None:
        self._max_in_row = max_in_row
        self._slow_after = slow_after
        self.times_calls = slow_after is not None
        self._clock = clock
        self.in_row: dict[tuple[str, str], int] = {}
        self.counts: dict[str, int] = {}
        self.num_about_requests = 0
        self.slowest: dict[str, float] = {}

    def ask(
        self,
        component: Component,
        method: Callable[P, T],
        expected: Expected,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T | None:
        """Call a component's method whose fault belongs to no request.

        Returns:
            Its answer, or None if it raised or answered nonsense.

        Raises:
            PluginError: It did so too often in a row.
        """
        try:
            if self.times_calls:
                answer = self.timed(component, method, *args, **kwargs)
            else:
                answer = method(*args, **kwargs)
        except (RunEndedError, *OUTSIDE):
            raise
        except BaseException as error:
            name = name_of(component, method)
            self.count_in_row(component, name, raised(error, component, name), error)
            return None
        if not _allows(expected, answer):
            name = name_of(component, method)
            self.count_in_row(component, name, _odd(component, name, answer, expected))
            return None
        if self.in_row:
            self.clear(component, name_of(component, method))
        return answer

    def ask_about_request(
        self,
        component: Component,
        method: Callable[P, T],
        expected: Expected,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a component's method whose fault belongs to the request that it is asked about.

        Raises:
            RequestFault: It raised, or its answer is not expected.
        """
        try:
            if self.times_calls:
                answer = self.timed(component, method, *args, **kwargs)
            else:
                answer = method(*args, **kwargs)
        except (RunEndedError, *OUTSIDE):
            raise
        except BaseException as error:
            name = name_of(component, method)
            fault = self.about_request(component, name, raised(error, component, name))
            if _log.isEnabledFor(logging.DEBUG):
                _log.warning("%s", fault.detail, exc_info=error)
            raise fault from error
        if not _allows(expected, answer):
            name = name_of(component, method)
            what = _odd(component, name, answer, expected)
            raise self.about_request(component, name, what)
        return answer

    def about_request(self, component: Component, name: str, what: str) -> RequestFault:
        """Count a fault that belongs to a request, and make its exception."""
        self.num_about_requests += 1
        return RequestFault(component, name, what)

    def not_queued(self, component: Component, method: Callable[..., Any]) -> RequestFault:
        """Count that a method left a request out of its queue, and make the exception."""
        return self.about_request(
            component, name_of(component, method), "did not queue the request"
        )

    def timed(
        self, component: Component, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a method, and report it if it is slow."""
        start = self._clock.now()
        try:
            return method(*args, **kwargs)
        finally:
            seconds = self._clock.now() - start
            if self._slow_after is not None and seconds > self._slow_after:
                self._note_slow(f"{component.ctx.label}: {name_of(component, method)}()", seconds)

    def count(self, component: Component, name: str) -> str:
        """Count a fault of the method of that name.

        Returns:
            Where it was, for messages.
        """
        where = f"{component.ctx.label}: {name}()"
        self.counts[where] = self.counts.get(where, 0) + 1
        return where

    def count_in_row(
        self, component: Component, name: str, what: str, error: BaseException | None = None
    ) -> None:
        """Count a fault that makes a step fall back.

        Raises:
            PluginError: It is one too many in a row.
        """
        where = self.count(component, name)
        place = (component.ctx.path, name)
        self.in_row[place] = num_faults = self.in_row.get(place, 0) + 1
        message = "%s %s (fault %d in a row)"
        _log.warning(message, where, what, num_faults, exc_info=traceback_of(error))
        if num_faults >= self._max_in_row:
            raise RunEndedError(
                f"{what}; {num_faults} faults in a row end the run "
                "(scheduler.max_component_faults)",
                where=where,
            ) from error

    def clear(self, component: Component, name: str) -> None:
        """Note that a method worked."""
        self.in_row.pop((component.ctx.path, name), None)

    def _note_slow(self, where: str, seconds: float) -> None:
        """Keep the slowest call; a warning each time that it has doubled."""
        slowest = self.slowest.get(where, 0.0)
        if seconds >= 2 * slowest:
            _log.warning(
                "%s took %.3g s (scheduler.slow_component_seconds = %g)",
                where,
                seconds,
                self._slow_after,
            )
        self.slowest[where] = max(slowest, seconds)


def unusable(
    component: Component, method: Callable[..., Any], answer: object, expected: str
) -> PluginError:
    """Make the exception for an answer that nothing can replace."""
    name = name_of(component, method)
    what = f"returned {_shown(answer)}, expected {expected}{place_of_answer(component, name)}"
    return PluginError(what, where=f"{component.ctx.label}: {name}()")


def raised(error: BaseException, component: Component, name: str) -> str:
    """Say what a component's method raised, or what came of its answer, and at which line."""
    said = ": ".join(part for part in (type(error).__name__, _shown(error, str)) if part)
    place = place_of_error(type(component), error) or place_of_answer(component, name)
    return f"raised {said}{place}"


def traceback_of(error: BaseException | None) -> BaseException | None:
    """Return the exception whose traceback a log record shows, if the level is DEBUG."""
    return error if _log.isEnabledFor(logging.DEBUG) else None


def name_of(component: Component, method: Callable[..., Any]) -> str:
    """Return the name under which a component has a method, for messages.

    It may differ from the function's own name: a decorator may have replaced the function.
    """
    meant = (method, getattr(method, "__wrapped__", method))
    own: str = getattr(method, "__name__", type(method).__name__)
    if getattr(component, own, None) in meant:
        return own
    for name in dir(type(component)):
        if callable(getattr_static(component, name)) and getattr(component, name) in meant:
            return name
    return own


def _odd(component: Component, name: str, answer: object, expected: Expected) -> str:
    place = place_of_answer(component, name)
    return f"returned {_shown(answer)}, expected {expected.words}{place}"


def _shown(value: object, form: Callable[[Any], str] = repr) -> str:
    """Put a plugin's object in words; its own words for it may fail as well."""
    try:
        return form(value)
    except OUTSIDE:
        raise
    except BaseException:
        return f"<{type(value).__name__}>"


def _allows(expected: Expected, answer: object) -> bool:
    """Tell whether an answer passes its check; one that cannot even be looked at does not."""
    try:
        return expected is ANYTHING or expected.check(answer)
    except OUTSIDE:
        raise
    except BaseException:
        return False
