"""A record of the calls of a component's methods, with their results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from attrs import define, field

from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.protocols.component import overrides
from batchwright.request_view import RequestView


@define
class Call:
    """One call of a method.

    Args:
        method: Its name.
        arguments: Arguments of the call.
        was_running: True if the request that it was asked about ran at that time.
        answer: The returned value; an iterator as a list.
        error: The raised exception, or None.
    """

    method: str
    arguments: tuple[Any, ...]
    was_running: bool = False
    answer: Any = None
    error: Exception | None = None

    @property
    def request(self) -> RequestView | None:
        """The request that it was asked about, if its first argument is one."""
        first = self.arguments[0] if self.arguments else None
        return first if isinstance(first, RequestView) else None


@define
class Spy:
    """Keep every call of the methods that a component overrides.

    Attributes:
        calls: All of them, in order.
    """

    calls: list[Call] = field(factory=list)

    def of(self, method: str) -> list[Call]:
        """The calls of one method."""
        return [call for call in self.calls if call.method == method]

    @property
    def errors(self) -> list[str]:
        """Texts of the exceptions."""
        return [
            f"{call.method}() raised {type(call.error).__name__}: {call.error}"
            for call in self.calls
            if call.error is not None
        ]

    def watch(self, kind: str, cls: type[Any]) -> type[Any]:
        """Make a class like another one that reports to this spy.

        Args:
            kind: E.g. ``policy``.
            cls: A component's class.
        """
        names = overridden_methods(kind, cls)
        functions = {name: inspect.getattr_static(cls, name) for name in names}
        methods = {
            name: self._watched(function)
            for name, function in functions.items()
            if inspect.isfunction(function)  # a static method has no component to speak of
        }
        return type(cls.__name__, (cls,), {**methods, "__module__": cls.__module__})

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def watched(component: Any, *arguments: Any, **keywords: Any) -> Any:
            call = Call(function.__name__, (*arguments, *keywords.values()))
            call.was_running = call.request is not None and _runs(component, call.request)
            self.calls.append(call)
            try:
                answer = function(component, *arguments, **keywords)
                call.answer = list(answer) if inspect.isgenerator(answer) else answer
            except Exception as error:
                call.error = error
                raise
            return call.answer

        return watched


def overridden_methods(kind: str, cls: type[Any]) -> Iterator[str]:
    """Names of the methods of a kind's contract that a class defines."""
    base = COMPONENT_KINDS[kind]
    for name, _ in inspect.getmembers(base, inspect.isfunction):
        if not name.startswith("_") and overrides(cls, name):
            yield name


def _runs(component: Any, request: RequestView) -> bool:
    try:
        return request in component.ctx.view.running
    except RuntimeError:  # there is no scheduler yet
        return False
