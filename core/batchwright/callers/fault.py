"""Faults of components: their words, and the line of code that they point to."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from traceback import walk_tb
from typing import Any, Final

from batchwright.exceptions import OUTSIDE, BatchwrightError, PluginError
from batchwright.protocols import Component

_CORE: Final = f"{Path(__file__).resolve().parents[1]}"
_log = logging.getLogger("batchwright.faults")


class RunEndedError(PluginError):
    """A component's fault ends the run; no handler on the way takes it for its own."""


class Fault(Exception):  # noqa: N818 (never leaves the scheduler)
    """A component's method raised, or gave an answer that is not allowed.

    Args:
        component: The component.
        name: The method's name.
        what: The fault in words that follow the name.

    Attributes:
        where: The component and its method.
    """

    def __init__(self, component: Component, name: str, what: str) -> None:
        self.component = component
        self.name = name
        self.what = what
        self.where = f"{component.ctx.label}: {name}()"
        super().__init__(f"{self.where} {what}")

    @classmethod
    def raised(cls, component: Component, name: str, error: BaseException) -> Fault:
        """Make the fault of a method that raised, or whose answer made core raise."""
        said = ": ".join(part for part in (type(error).__name__, _shown(error, str)) if part)
        place = place_of_error(type(component), error) or _place_of_answer(component, name)
        fault = cls(component, name, f"raised {said}{place}")
        fault.__cause__ = error
        return fault

    @classmethod
    def returned(cls, component: Component, name: str, answer: object, expected: str) -> Fault:
        """Make the fault of a method that gave a wrong answer."""
        place = _place_of_answer(component, name)
        return cls(component, name, f"returned {_shown(answer)}, expected {expected}{place}")

    def ending_run(self, addition: str = "") -> RunEndedError:
        """Make the exception by which it ends the run, or prevents its start."""
        return RunEndedError(self.what + addition, where=self.where)

    def log(self, level: int, outcome: str = "") -> None:
        """Log it and its outcome; with the traceback where the level is DEBUG."""
        cause = self.__cause__ if _log.isEnabledFor(logging.DEBUG) else None
        _log.log(level, "%s%s", self, outcome, exc_info=cause)


def raise_as_fault(error: BaseException, components: Iterable[Component]) -> None:
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
            fault = Fault.raised(owner, frame.f_code.co_name, error)
            raise fault.ending_run("; what it holds is unknown now") from error


def name_of(component: Component, method: Callable[..., object]) -> str:
    """Return the name under which a component has a method.

    It may differ from the function's own name: a decorator may have replaced the function.
    """
    owner = getattr(method, "__self__", component)  # may be the component's queue
    meant = (method, getattr(method, "__wrapped__", method))
    own: str = getattr(method, "__name__", type(method).__name__)
    for name in (own, *dir(type(owner))):
        if callable(inspect.getattr_static(owner, name, None)) and getattr(owner, name) in meant:
            return name
    return own


def place_of_error(cls: type[Component], error: BaseException) -> str:
    """The line of a component's class that led to an exception, e.g. `` (my_policy.py:7)``.

    Of the frames in the component's own files it is the innermost; where there are none,
    the innermost outside of core.

    Returns:
        Text to append to a message; empty if no such line is known.
    """
    trace = walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, line) for frame, line in trace]
    foreign = [place for place in places if not place[0].startswith(_CORE)]
    modules = (sys.modules.get(base.__module__) for base in cls.__mro__)
    own = {getattr(module, "__file__", None) for module in modules}
    found = [place for place in foreign if place[0] in own] or foreign
    return _text(*found[-1]) if found else ""


def _place_of_answer(component: Component, name: str) -> str:
    """The line at which the method begins that gave a wrong answer, like ``place_of_error``."""
    method: Any = getattr(type(component), name, None)
    code = getattr(inspect.unwrap(method), "__code__", None)
    if code is None or code.co_filename.startswith(_CORE):
        return ""
    return _text(code.co_filename, code.co_firstlineno)


def _text(file: str, line: int) -> str:
    return f" ({PurePath(file).name}:{line})"


def _shown(value: object, form: Callable[[Any], str] = repr) -> str:
    """Put a plugin's object in words; its own words for it may fail as well."""
    try:
        return form(value)
    except OUTSIDE:
        raise
    except BaseException:
        return f"<{type(value).__name__}>"
