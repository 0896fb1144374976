"""What happens when a component misbehaves.

A fault that belongs to a request ends that request. A fault that belongs to none
makes the step fall back; several in a row end the run. An observer is disabled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from traceback import walk_tb
from typing import Any

from batchwright.clock import Clock
from batchwright.exceptions import OUTSIDE, BatchwrightError, PluginError
from batchwright.fault_place import place_of_answer, place_of_error
from batchwright.protocols import Component
from batchwright.request import Request

_log = logging.getLogger("batchwright.faults")


def set_up(component: Component) -> None:
    """Have a component prepare itself.

    Raises:
        PluginError: It cannot.
    """
    try:
        component.setup()
    except (BatchwrightError, *OUTSIDE):
        raise
    except BaseException as error:
        what = raised(error, component, "setup")
        raise PluginError(what, where=f"{component.ctx.label}: setup()") from error


def blame(error: BaseException, components: Iterable[Component]) -> None:
    """Name the component in whose code an uncaught exception arose.

    That of a KV manager or of a queue: what they hold is unknown now, so the run ends.

    Raises:
        PluginError: It is a component's; not if it is announced, or of none of them.
    """
    if isinstance(error, (BatchwrightError, *OUTSIDE)):
        return
    owners: dict[int, Component] = {}
    for component in components:
        owners[id(component)] = owners[id(getattr(component, "queue", component))] = component
    for frame, _ in reversed(list(walk_tb(error.__traceback__))):
        owner = owners.get(id(frame.f_locals.get("self")))
        if owner is not None:
            raise PluginError(
                f"{raised(error, owner, frame.f_code.co_name)}; what it holds is unknown now",
                where=f"{owner.ctx.label}: {frame.f_code.co_name}()",
            ) from error


class RequestFault(Exception):  # noqa: N818 (never leaves the scheduler)
    """A component failed on one request; caught where that request is handled."""

    def __init__(self, component: Component, method: str, what: str) -> None:
        self.detail = f"{component.ctx.label}: {method}() {what}"
        super().__init__(self.detail)


class RunEndedError(PluginError):
    """A component failed too often in a row; no handler on the way takes it for its own."""


class Faults:
    """Calls components, and counts the faults that belong to no request.

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
        method: str,
        arguments: tuple[Any, ...],
        *,
        check: Callable[[Any], bool] | None = None,
        expected: str = "",
        call: Callable[..., Any] | None = None,
    ) -> Any:
        """Call a method whose fault belongs to no request.

        Args:
            component: The component.
            method: What, for messages too.
            arguments: With what.
            check: Whether an answer is one.
            expected: What the check allows, in words.
            call: What is called if it is not simply that method.

        Returns:
            Its answer, or None if it raised or answered nonsense.

        Raises:
            PluginError: It did so too often in a row.
        """
        try:
            if self.times_calls:
                answer = self.call(component, method, arguments, call)
            else:
                answer = (call or getattr(component, method))(*arguments)
        except (RunEndedError, *OUTSIDE):
            raise
        except BaseException as error:
            self.strike(component, method, raised(error, component, method), error)
            return None
        if check is not None and not _passes(check, answer):
            what = f"returned {_shown(answer)}, expected {expected}"
            self.strike(component, method, what + place_of_answer(component, method))
            return None
        if self.in_row:
            self.clear(component, method)
        return answer

    def ask_about(
        self,
        request: Request,
        component: Component,
        method: str,
        *arguments: Any,
        check: Callable[[Any], bool] | None = None,
        expected: str = "",
        call: Callable[..., Any] | None = None,
    ) -> Any:
        """Call a method whose fault belongs to the request that it is asked about.

        Raises:
            RequestFault: It raised, or its answer does not pass the check.
        """
        try:
            if self.times_calls:
                answer = self.call(component, method, (request.view, *arguments), call)
            else:
                answer = (call or getattr(component, method))(request.view, *arguments)
        except (RunEndedError, *OUTSIDE):
            raise
        except BaseException as error:
            fault = self.about_request(component, method, raised(error, component, method))
            if _log.isEnabledFor(logging.DEBUG):
                _log.warning("%s", fault.detail, exc_info=error)
            raise fault from error
        if check is not None and not _passes(check, answer):
            what = f"returned {_shown(answer)}, expected {expected}"
            raise self.about_request(component, method, what + place_of_answer(component, method))
        return answer

    def about_request(self, component: Component, method: str, what: str) -> RequestFault:
        """Count a fault that belongs to a request, and make its exception."""
        self.num_about_requests += 1
        return RequestFault(component, method, what)

    def call(
        self,
        component: Component,
        method: str,
        arguments: tuple[Any, ...],
        call: Callable[..., Any] | None = None,
    ) -> Any:
        """Call a method, and report it if it is slow."""
        call = call or getattr(component, method)
        if self._slow_after is None:
            return call(*arguments)
        start = self._clock.now()
        try:
            return call(*arguments)
        finally:
            seconds = self._clock.now() - start
            if seconds > self._slow_after:
                self._note_slow(f"{component.ctx.label}: {method}()", seconds)

    def count(self, component: Component, method: str) -> str:
        """Count a fault.

        Returns:
            Where it was, for messages.
        """
        where = f"{component.ctx.label}: {method}()"
        self.counts[where] = self.counts.get(where, 0) + 1
        return where

    def strike(
        self, component: Component, method: str, what: str, error: BaseException | None = None
    ) -> None:
        """Count a fault that makes a step fall back.

        Raises:
            PluginError: It is one too many in a row.
        """
        where = self.count(component, method)
        place = (component.ctx.path, method)
        self.in_row[place] = strikes = self.in_row.get(place, 0) + 1
        message = "%s %s (fault %d in a row)"
        _log.warning(message, where, what, strikes, exc_info=traceback_of(error))
        if strikes >= self._max_in_row:
            raise RunEndedError(
                f"{what}; {strikes} faults in a row end the run (scheduler.max_component_faults)",
                where=where,
            ) from error

    def clear(self, component: Component, method: str) -> None:
        """Note that a method worked."""
        self.in_row.pop((component.ctx.path, method), None)

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


def demand(sound: bool, component: Component, method: str, answer: object, expected: str) -> None:
    """Refuse an answer that nothing can replace.

    Raises:
        PluginError: It is not sound.
    """
    if not sound:
        what = f"returned {_shown(answer)}, expected {expected}"
        what += place_of_answer(component, method)
        raise PluginError(what, where=f"{component.ctx.label}: {method}()")


def raised(error: BaseException, component: Component, method: str) -> str:
    """Say what a component's method raised, or what came of its answer, and at which line."""
    said = ": ".join(part for part in (type(error).__name__, _shown(error, str)) if part)
    place = place_of_error(type(component), error) or place_of_answer(component, method)
    return f"raised {said}{place}"


def traceback_of(error: BaseException | None) -> BaseException | None:
    """Return the exception whose traceback a log record shows, if the level is DEBUG."""
    return error if _log.isEnabledFor(logging.DEBUG) else None


def _shown(value: object, form: Callable[[Any], str] = repr) -> str:
    """A plugin's object in words; its own words for it may fail as well."""
    try:
        return form(value)
    except OUTSIDE:
        raise
    except BaseException:
        return f"<{type(value).__name__}>"


def _passes(check: Callable[[Any], bool], answer: object) -> bool:
    """Whether an answer passes a check; one that the check cannot even look at does not."""
    try:
        return check(answer)
    except OUTSIDE:
        raise
    except BaseException:
        return False
