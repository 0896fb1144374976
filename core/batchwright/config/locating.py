"""Lines of a TOML file at which options stand, for messages."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

__all__ = ["line_in_source", "line_of"]

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_DOTTED_INDEX = re.compile(r"\.(\d+)(?=\.)")
_OPEN = re.compile(r"\"{3}|'{3}")


def line_in_source(source: str, path: str) -> int | None:
    """The line of a file at which an option stands; None if no file has it.

    Args:
        source: A path, and maybe overrides: ``FILE -o KEY=VALUE``.
        path: Dotted TOML path.
    """
    name, *overrides = source.split(" -o ")
    keys = (text.partition("=")[0].strip() for text in overrides)
    is_overridden = path in (_DOTTED_INDEX.sub(r"[\1]", key) for key in keys)
    if not name or is_overridden:
        return None
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return None
    return line_of(text, path)


def line_of(text: str, path: str) -> int | None:
    """The line of a TOML text at which an option stands, or the table that lacks it.

    Args:
        text: Valid TOML.
        path: Dotted path, e.g. ``gate[1].fraction``.

    Returns:
        The line of the longest beginning of the path that is there, from 1 on; None if
        none is.
    """
    wanted = [int(index) if index else name for index, name in _STEP.findall(path)]
    table: list[str | int] = []
    tables: Counter[str] = Counter()
    best, found = 0, None
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:
            quotes = "" if quotes in line else quotes
            continue
        here: list[str | int] = []
        if header := _HEADER.match(line):
            here = table = _names(header[2])
            if header[1] == "[[":
                table.append(tables[header[2]])
                tables[header[2]] += 1
        elif key := _KEY.match(line):
            here = [*table, *_names(key[1])]
            opened = _OPEN.findall(line)
            quotes = opened[0] if len(opened) % 2 else ""
        if best < len(here) <= len(wanted) and here == wanted[: len(here)]:
            best, found = len(here), number
    return found


def _names(dotted: str) -> list[str | int]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]
