"""TOML tables to attrs classes: strictly, and with the path of whatever is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import attrs
from attrs import frozen
from cattrs import (
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)

from batchwright.config.converter import strict_converter
from batchwright.exceptions import ConfigError
from batchwright.suggest import did_you_mean

T = TypeVar("T")


@frozen
class Problem:
    """One thing that is wrong with a configuration.

    Args:
        path: Dotted TOML path, e.g. ``gate[1].fraction``.
        message: What was found, what was expected.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def raise_problems(problems: Iterable[Problem], source: str) -> None:
    """Raise one ConfigError for all problems; return if there are none.

    Args:
        problems: What is wrong.
        source: The file that holds it.

    Raises:
        ConfigError: There is a problem.
    """
    found = list(dict.fromkeys(problems))
    if len(found) == 1:
        raise ConfigError(found[0].message, path=found[0].path, source=source)
    if found:
        lines = "".join(f"\n  {problem}" for problem in found)
        raise ConfigError(f"{len(found)} problems:{lines}", source=source)


def structure(cls: type[T], table: object, path: str) -> T | list[Problem]:
    """Build an attrs class from a TOML table.

    Args:
        cls: The attrs class; its fields are the keys.
        table: What the TOML holds.
        path: Where it holds it.

    Returns:
        The instance, or everything that is wrong.
    """
    try:
        return strict_converter().structure(table, cls)
    except Exception as error:
        return list(_problems(error, path))


def structure_options(component: Any, table: object, path: str, source: str = "") -> Any:
    """Build the options of a component.

    Args:
        component: Its class.
        table: Its TOML table, without ``use``.
        path: Where the TOML holds it, e.g. ``gate[1]``.
        source: The file.

    Returns:
        An instance of ``component.Options``.

    Raises:
        ConfigError: Unknown keys, wrong types, values out of range: all of them.
    """
    options = structure(component.Options, table, path)
    if isinstance(options, list):
        raise_problems(options, source)
    return options


def _problems(error: BaseException, path: str) -> Iterator[Problem]:
    """Flatten what cattrs collected."""
    if isinstance(error, ForbiddenExtraKeysError):
        known = [attribute.name for attribute in attrs.fields(error.cl)]
        for key in sorted(error.extra_fields):
            message = f"unknown option.{did_you_mean(key, known)}"
            yield Problem(f"{path}.{key}", f"{message} Options: {', '.join(known) or 'none'}")
    elif isinstance(error, ClassValidationError | IterableValidationError):
        located, others = error.group_exceptions()
        for inner, note in located:
            if isinstance(note, IterableValidationNote):
                step = note.index
                yield from _problems(
                    inner, f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}"
                )
            else:
                yield from _problems(inner, f"{path}.{note.name}")
        for inner in others:
            yield from _problems(inner, path)
    else:
        yield _problem(error, path)


def _problem(error: BaseException, path: str) -> Problem:
    name = path.rpartition(".")[2]
    if isinstance(error, KeyError) and error.args == (name,):
        return Problem(path, "is required")
    message = str(error.args[0] if isinstance(error, ValueError) and error.args else error)
    # Validators of attrs name the attribute in the message: 'fraction' must be ...
    named = re.match(r"'(\w+)' (.*)", message, re.DOTALL)
    if not isinstance(error, ValueError):
        message = f"{type(error).__name__}: {message}"
    elif named and named[1] != name:
        return Problem(f"{path}.{named[1]}", named[2])
    return Problem(path, message.removeprefix(f"{name}: "))
