"""The place in a component's code at which a fault arose."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path, PurePath
from traceback import walk_tb
from typing import Final

from batchwright.protocols.component import Component

__all__ = ["place_of_answer", "place_of_error"]

_CORE: Final = f"{Path(__file__).resolve().parents[1]}"


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


def place_of_answer(component: Component, method: str) -> str:
    """The line at which the method begins that gave a wrong answer.

    Returns:
        Text to append to a message; empty if the component does not define the method.
    """
    defined = inspect.unwrap(getattr(type(component), method, None) or _nothing)
    code = getattr(defined, "__code__", None)
    if code is None or code.co_filename.startswith(_CORE):
        return ""
    return _text(code.co_filename, code.co_firstlineno)


def _nothing() -> None:
    """A method that no component defines."""


def _text(file: str, line: int) -> str:
    return f" ({PurePath(file).name}:{line})"
