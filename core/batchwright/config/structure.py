"""TOML tables to attrs classes: strictly, and with the path of whatever is wrong.

An option may be a bool, int, float, str, Path, Literal or None, an array or a table of one
of these, a table with an attrs class of its own, or a union. Nothing is coerced but an
integer to a float.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from attrs import frozen

from batchwright.config.locating import line_in_source
from batchwright.config.renamed import RENAMED
from batchwright.exceptions import OUTSIDE, ConfigError
from batchwright.suggest import did_you_mean

_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    Path: "a path",
    dict: "a table",
    Mapping: "a table",
}
_ARRAYS = (list, tuple, Sequence)


@frozen
class Problem:
    """One thing that is wrong with a configuration.

    Args:
        path: Dotted TOML path, e.g. ``gate[1].fraction``.
        message: The value that was found, and the expected one.
    """

    path: str
    message: str


def raise_problems(problems: Iterable[Problem], source: str) -> None:
    """Raise one ConfigError for all problems; return if there are none.

    Args:
        problems: The problems.
        source: The file that holds it.

    Raises:
        ConfigError: There is a problem.
    """
    found = list(dict.fromkeys(problems))
    if len(found) == 1:
        raise located(found[0].message, found[0].path, source)
    if found:
        lines = "".join(f"\n  {_placed(problem, source)}" for problem in found)
        raise ConfigError(f"{len(found)} problems:{lines}", source=source)


def located(message: str, path: str, source: str) -> ConfigError:
    """The error of one option, with its line where a file has it.

    Args:
        message: The value that was found, and the expected one.
        path: Dotted TOML path.
        source: The file, and maybe overrides.
    """
    line = line_in_source(source, path)
    name, sign, overrides = source.partition(" -o ")
    place = source if line is None else f"{name}:{line}{sign}{overrides}"
    return ConfigError(message, path=path, source=place)


def _placed(problem: Problem, source: str) -> str:
    """A problem, with the line of its option where a file has it."""
    line = line_in_source(source, problem.path)
    place = problem.path if line is None else f"{problem.path} (line {line})"
    return f"{place}: {problem.message}"


def structure_options(component: Any, table: object, path: str, source: str = "") -> Any:
    """Build the options of a component.

    Args:
        component: Its class.
        table: Its TOML table, without ``use``.
        path: Its TOML path, e.g. ``gate[1]``.
        source: The file.

    Returns:
        An instance of ``component.Options``.

    Raises:
        ConfigError: Unknown keys, wrong types, values out of range: all of them.
    """
    structure = Structure()
    options = structure.build(component.Options, table, path)
    raise_problems(structure.problems, source)
    return options


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


class Structure:
    """Build values of declared types from TOML values, and collect the problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def note(self, path: str, message: str) -> None:
        """Collect a problem."""
        self.problems.append(Problem(path, message))

    def refuse_unknown(self, what: str, path: str, keys: Iterable[str], known: list[str]) -> None:
        """Collect a problem for every key below a path that is not known."""
        for key in sorted(set(keys).difference(known)):
            if path + key in RENAMED:
                self.note(path + key, f"is called {RENAMED[path + key]} now")
                continue
            listed = f"{what.capitalize()}s: {', '.join(known) or 'none'}"
            self.note(path + key, f"unknown {what}.{did_you_mean(key, known)} {listed}")

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
            needed = [t for t in arguments if t is not NoneType]
            if len(needed) == 1 and value is not None:
                return self.build(needed[0], value, path)
            for alternative in arguments:
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
        arguments = {}
        for name, field in fields.items():
            if name in table:
                arguments[field.alias] = self._option(field, table[name], f"{path}.{name}")
            elif field.default is attrs.NOTHING:
                self.note(f"{path}.{name}", "is required")
        if len(self.problems) == before:
            try:
                return cls(**arguments)
            except OUTSIDE:
                raise
            except BaseException as error:  # validators of attrs name the option themselves
                self.note(path, str((*error.args, error)[0]))
        return None

    def _option(self, field: Any, value: Any, path: str) -> Any:
        """Check each option by itself, so that all mistakes of a table are found at once."""
        before = len(self.problems)
        result = self.build(field.type, value, path)
        for check in field.metadata.get("checks", ()):
            if len(self.problems) == before:
                try:
                    check(None, field, result)
                except ValueError as error:
                    self.note(path, str(error).removeprefix(f"{field.name}: "))
                except OUTSIDE:
                    raise
                except BaseException as error:
                    self.note(path, f"its check failed: {type(error).__name__}: {error}")
        return result


def _has_float(value: int | float) -> bool:
    """Return True if there is a float for a number."""
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """``list`` and ``(int,)`` for ``list[int]``; the type itself where it has no parts."""
    return get_origin(kind) or kind, get_args(kind)
