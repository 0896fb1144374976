"""TOML tables to attrs classes: strictly, and with the path of whatever is wrong.

An option may be a bool, int, float, str, Path, Literal or None, an array or a table of one
of these, a table with an attrs class of its own, or a union. Nothing is coerced but an
integer to a float.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs
from attrs import Factory, define

from batchwright.exceptions import OUTSIDE
from batchwright.suggest import did_you_mean

RENAMED: Final[Mapping[str, str]] = {
    "policy.priority.displaces": "policy.priority.preempts",
    "policy.window.debt": "policy.window.fairness",
    "scheduler.max_displacements": "scheduler.max_policy_preemptions",
    "simulation.leap": "simulation.fast_forward",
}
"""By the path that an option had in the TOML, the one that it has."""

_WORDS: Final[dict[Any, str]] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    Path: "a path",
    dict: "a table",
    Mapping: "a table",
}
_ARRAYS: Final = (list, tuple, Sequence)


def type_name(kind: Any) -> str:
    """Say in words what values a type allows, e.g. ``an array (each a string)``."""
    origin, arguments = _parts(kind)
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin in (Union, UnionType):
        return " or ".join(type_name(t) for t in arguments if t is not NoneType)
    if origin in _ARRAYS:
        return f"an array (each {type_name(arguments[0])})" if arguments else "an array"
    return "a table" if attrs.has(kind) else _WORDS.get(origin, str(kind))


@define
class Structure:
    """Build values of declared types from TOML values, and collect the problems.

    Args:
        problems: TOML path and message of each.
    """

    problems: list[tuple[str, str]] = Factory(list)

    def note(self, path: str, message: str) -> None:
        """Collect a problem."""
        self.problems.append((path, message))

    def refuse_unknown(self, what: str, path: str, keys: Iterable[str], known: list[str]) -> None:
        """Collect a problem for every key below a path that is not known."""
        for key in sorted(set(keys).difference(known)):
            message = f"unknown {what}.{did_you_mean(key, known)} "
            message += f"{what.capitalize()}s: {', '.join(known) or 'none'}"
            successor = RENAMED.get(path + key)
            self.note(path + key, f"is called {successor} now" if successor else message)

    def build(self, kind: Any, value: Any, path: str) -> Any:
        """Build a value of a type; what does not fit is a problem, and the answer None.

        Args:
            kind: The type.
            value: The value in the TOML file.
            path: Its TOML path.
        """
        origin, arguments = _parts(kind)
        if attrs.has(kind) and isinstance(value, Mapping):
            return self._table(kind, value, path)
        if origin in (Union, UnionType):
            fitting = [t for t in arguments if t is not NoneType or value is None]
            if len(fitting) == 1:
                return self.build(fitting[0], value, path)
            for alternative in fitting:
                trial = Structure()
                result = trial.build(alternative, value, path)
                if not trial.problems:
                    return result
        if origin in _ARRAYS and isinstance(value, list | tuple):
            make, item = list if origin is list else tuple, (*arguments, Any)[0]
            return make(self.build(item, v, f"{path}[{i}]") for i, v in enumerate(value))
        if origin in (dict, Mapping) and isinstance(value, Mapping):
            item = (*arguments, Any, Any)[1]
            return {key: self.build(item, v, f"{path}.{key}") for key, v in value.items()}
        if kind is float and type(value) in (int, float) and _has_float(value):
            return float(value)
        if kind is Path and isinstance(value, str | Path):
            return Path(value)
        if origin is Literal and (type(value), value) in [(type(a), a) for a in arguments]:
            return value
        if kind is Any or (type(value) is kind and kind is not float):
            return value
        hint = did_you_mean(value, map(str, arguments)) if origin is Literal else ""
        self.note(path, f"expected {type_name(kind)}, got {value!r}{hint and '.' + hint}")
        return None

    def _table(self, cls: type[Any], table: Mapping[str, Any], path: str) -> Any:
        fields = {field.name: field for field in attrs.fields(attrs.resolve_types(cls))}
        before = len(self.problems)
        self.refuse_unknown("option", f"{path}.", table, list(fields))
        values = {}
        for name, field in fields.items():
            if name in table:
                values[field.alias] = self._option(field, table[name], f"{path}.{name}")
            elif field.default is attrs.NOTHING:
                self.note(f"{path}.{name}", "is required")
        if len(self.problems) > before:
            return None
        return self._asked(path, cls, **values)  # validators of attrs name the option themselves

    def _option(self, field: Any, value: Any, path: str) -> Any:
        """Check each option by itself, so that all mistakes of a table are found at once."""
        before = len(self.problems)
        result = self.build(field.type, value, path)
        for check in field.metadata.get("checks", ()):
            if len(self.problems) == before:
                self._asked(path, check, None, field, result)
        return result

    def _asked(self, path: str, call: Callable[..., Any], /, *args: Any, **values: Any) -> Any:
        """Call a check or a class; what it raises is a problem."""
        try:
            return call(*args, **values)
        except OUTSIDE:
            raise
        except BaseException as error:
            text = f"its check failed: {type(error).__name__}: {error}"
            if error.args and (isinstance(error, ValueError) or len(error.args) > 1):
                text = str(error.args[0])  # attrs' own validators add what was compared
            self.note(path, text.removeprefix(f"{path.rpartition('.')[2]}: "))


def _has_float(value: int | float) -> bool:
    """Return True if there is a float for a number."""
    return abs(value) <= sys.float_info.max or abs(value) == math.inf


def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """``list`` and ``(int,)`` for ``list[int]``; the type itself where it has no parts."""
    return get_origin(kind) or kind, get_args(kind)
