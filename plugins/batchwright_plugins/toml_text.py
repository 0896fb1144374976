"""TOML: parsed, and searched for the line at which an option stands."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from batchwright.exceptions import ConfigError

__all__ = ["line_of", "line_unless_given", "parse_toml"]

_MOST_DEPTH: Final = 100
_DEEP_KEY: Final = re.compile(
    rf"""^[ \t[]*+(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_MOST_DEPTH}}}""",
    re.MULTILINE,
)
_STATEMENT: Final = re.compile(
    r"""\s*+(\[{0,2})((?:"[^"]*"|'[^']*'|[^"'\[\]=#])++)[\]=]"""  # a header or a key
)
_NAME: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_LONG_QUOTES: Final = re.compile(r"\"{3}|'{3}")


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Parse TOML.

    Args:
        text: All of it.
        source: The file, for messages.

    Raises:
        ConfigError: It is none; names the file, and the line as far as that is known.
    """
    if deep := _DEEP_KEY.search(text):  # tomllib would take quadratic time
        line = text.count("\n", 0, deep.start()) + 1
        raise ConfigError("is not valid TOML: a key has too many parts", source=f"{source}:{line}")
    try:
        table = tomllib.loads(text)
        wide = _wide_integer(table, "", 0)
    except RecursionError:
        raise ConfigError("is not valid TOML: it is nested too deeply", source=source) from None
    except ValueError as error:  # an integer of thousands of digits is one, too
        raise ConfigError(f"is not valid TOML: {error}", source=source) from error
    if wide is not None:
        place = f"{source}:{line_of(text, wide)}"
        raise ConfigError("expected an integer of 64 bits", path=wide, source=place)
    return table


def _wide_integer(value: Any, path: str, depth: int) -> str | None:
    """Find the path of an integer that TOML has not; refuse tables in tables without end."""
    if depth > _MOST_DEPTH:
        raise RecursionError
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return path
    items: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        items = [(f"{path}.{name}" if path else name, item) for name, item in value.items()]
    elif isinstance(value, list):
        items = [(f"{path}[{i}]", item) for i, item in enumerate(value)]
    found = (_wide_integer(item, inner, depth + 1) for inner, item in items)
    return next(filter(None, found), None)


def line_unless_given(text: str, overrides: Sequence[str], path: str) -> int | None:
    """The line at which an option stands; None if an override ``KEY=VALUE`` says it."""
    given = [_steps(override.partition("=")[0].strip()) for override in overrides]
    return None if _steps(path) in given else line_of(text, path)


def line_of(text: str, path: str) -> int | None:
    """The line of a TOML text at which an option stands, or the table that lacks it.

    Args:
        text: Valid TOML.
        path: Dotted path, e.g. ``gate[1].fraction``.

    Returns:
        The line of the longest beginning of the path that is there, from 1 on; None if
        none is.
    """
    wanted, table, tables = _steps(path), list[str](), Counter[str]()
    best, found, quotes = 0, None, ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:
            quotes = "" if quotes in line else quotes
            continue
        if (statement := _STATEMENT.match(line)) is None:
            continue
        names = [name.strip("\"'") for name in _NAME.findall(statement[2])]
        if statement[1] == "[[":
            name = ".".join(names)
            names.append(str(tables[name]))
            tables[name] += 1
        if statement[1]:
            here = table = names
        else:
            here = table + names
            opened = _LONG_QUOTES.findall(line)
            quotes = opened[0] if len(opened) % 2 else ""
        if best < len(here) and here == wanted[: len(here)]:
            best, found = len(here), number
    return found


def _steps(path: str) -> list[str]:
    """``gate``, ``1``, ``fraction`` of ``gate[1].fraction`` or ``gate.1.fraction``."""
    return path.replace("[", ".").replace("]", "").split(".")
