"""What happens when a component misbehaves.

A fault that belongs to a request ends that request. A fault that belongs to none
makes the step fall back; several in a row end the run. An observer is disabled.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from batchwright.exceptions import BatchwrightError, PluginError
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
    except BatchwrightError:
        raise
    except Exception as error:
        what = f"raised {type(error).__name__}: {error}"
        raise PluginError(what, where=f"{component.ctx.label}: setup()") from error


def blame(error: Exception, components: Iterable[Component]) -> None:
    """Name the component in whose code an exception arose that nobody caught.

    That of a KV manager or of a queue: what they hold is unknown now, so the run ends.

    Raises:
        PluginError: It is a component's; not if it is announced, or nobody's.
    """
    if isinstance(error, BatchwrightError):
        return
    owners: dict[int, Component] = {}
    for component in components:
        owners[id(component)] = owners[id(getattr(component, "queue", component))] = component
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        owner = owners.get(id(frame.f_locals.get("self")))
        if owner is not None:
            raise PluginError(
                f"raised {type(error).__name__}: {error}; what it holds is unknown now",
                where=f"{owner.ctx.label}: {frame.f_code.co_name}()",
            ) from error


class RequestFault(Exception):  # noqa: N818 (never leaves the scheduler)
    """A component failed on one request; caught where that request is handled."""

    def __init__(self, component: Component, method: str, what: str) -> None:
        self.detail = f"{component.ctx.label}: {method}() {what}"
        super().__init__(self.detail)


def ask_about(
    request: Request,
    component: Component,
    method: str,
    *arguments: Any,
    check: Callable[[Any], bool] | None = None,
    expected: str = "",
) -> Any:
    """Call a method whose fault belongs to the request that it is asked about.

    Raises:
        RequestFault: It raised, or its answer does not pass the check.
    """
    try:
        answer = getattr(component, method)(request.view, *arguments)
    except Exception as error:
        raise RequestFault(component, method, f"raised {type(error).__name__}: {error}") from error
    if check is not None and not _passes(check, answer):
        raise RequestFault(component, method, f"returned {answer!r}, expected {expected}")
    return answer


class Faults:
    """Counts the faults that belong to no request.

    Args:
        max_in_row: So many of one component in a row end the run.
    """

    def __init__(self, max_in_row: int) -> None:
        self._max_in_row = max_in_row
        self._in_row: dict[tuple[str, str], int] = {}
        self.counts: dict[str, int] = {}

    def ask(
        self,
        component: Component,
        method: str,
        arguments: tuple[Any, ...],
        *,
        check: Callable[[Any], bool] | None = None,
        expected: str = "",
    ) -> Any:
        """Call a method whose fault belongs to no request.

        Returns:
            Its answer, or None if it raised or answered nonsense.

        Raises:
            PluginError: It did so too often in a row.
        """
        try:
            answer = getattr(component, method)(*arguments)
        except Exception as error:
            self.strike(component, method, f"raised {type(error).__name__}: {error}")
            return None
        if check is not None and not _passes(check, answer):
            self.strike(component, method, f"returned {answer!r}, expected {expected}")
            return None
        self.clear(component, method)
        return answer

    def strike(self, component: Component, method: str, what: str) -> None:
        """Count a fault.

        Raises:
            PluginError: It is one too many in a row.
        """
        where = f"{component.ctx.label}: {method}()"
        self.counts[where] = self.counts.get(where, 0) + 1
        place = (component.ctx.path, method)
        self._in_row[place] = strikes = self._in_row.get(place, 0) + 1
        _log.warning("%s %s (fault %d in a row)", where, what, strikes)
        if strikes >= self._max_in_row:
            raise PluginError(
                f"{what}; {strikes} faults in a row end the run (scheduler.max_component_faults)",
                where=where,
            )

    def clear(self, component: Component, method: str) -> None:
        """Note that a method worked."""
        if self._in_row:
            self._in_row.pop((component.ctx.path, method), None)


def _passes(check: Callable[[Any], bool], answer: object) -> bool:
    """Whether an answer passes a check; one that the check cannot even look at does not."""
    try:
        return check(answer)
    except Exception:
        return False
