"""Mutations of files: of their bytes, and of what their format is made of."""

from __future__ import annotations

import codecs
import json
import random
import re
from collections.abc import Callable
from typing import Any

__all__ = ["mutate"]

_NUMBERS = (
    "0", "-0", "-1", "1", "0.5", "-0.5", "1.0", "255", "65536", "2147483648", "4294967296",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e15", "1e18", "1e300",
    "1e-300", "5e-324", "1e400", "-1e400", "1" + "0" * 400, "9" * 5000, "0x10", "1_000", "1e",
    "NaN", "nan", "-nan", "Infinity", "inf", "-inf", "true", "null",
)  # fmt: skip
_WORDS = (
    "", " ", "\0", "\t", "\x0b", "\x1c", "\x85", "\u2028", "\ufeff", "\ufffd", "\U0001f600",
    '"', "'", '"""', ",", ",,", ";", ":", "=", "#", "\\", "\\u0000", "\\ud800", "\\udc00", "\\x",
    "{", "}", "[", "]", "{}", "[]", "[[", "]]", "{{", "%s", "%n", "${x}", "../..", "/", "~", "~x/y",
    "null", "true", "nan", "None", "__class__", "a" * 300, "é" * 70,
)  # fmt: skip
_BYTES = (
    b"\xff", b"\xfe\xff", b"\x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\0", b"\r",
    b"\r\n", b"\n\n", b"\n", b"\x1a", b"\x7f", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, b"\x1f\x8b",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, 1e15, 1e300, 5e-324, float("nan"), float("inf"), 10**18,
    2**63, 2**64, 10**400, "", "x", "\0", "\ud800", "-1", "7", "a" * 300, [], [[]], [0], [None],
    ["x"], [[0, 1]], {}, {"": 0}, {"x": {}}, {"type": "text"}, list(range(50)),
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_BIG = 200_000
_DEEP = 100_000

Edit = Callable[[random.Random, bytes], bytes]


def mutate(chance: random.Random, data: bytes, form: str) -> bytes:
    """Mutate a file, one to four times.

    Args:
        chance: Decides; equal ones mutate alike.
        data: A valid file.
        form: ``json``, ``jsonl``, ``csv``, ``toml``, ``text`` or ``binary``.
    """
    edits = [*_OF_BYTES, *_OF_FORM.get(form, ()) * 3]
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        data = chance.choice(edits)(chance, data)
    return data


def _place(chance: random.Random, data: bytes) -> int:
    return chance.randint(0, len(data))


def _span(chance: random.Random, data: bytes) -> tuple[int, int]:
    begin = _place(chance, data)
    return begin, min(len(data), begin + chance.choice((1, 2, 4, 16, 64, 256)))


def _flip(chance: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _set(chance: random.Random, data: bytes) -> bytes:
    begin, end = _span(chance, data)
    return data[:begin] + chance.randbytes(end - begin) + data[end:]


def _delete(chance: random.Random, data: bytes) -> bytes:
    begin, end = _span(chance, data)
    return data[:begin] + data[end:]


def _duplicate(chance: random.Random, data: bytes) -> bytes:
    begin, end = _span(chance, data)
    return data[:end] + data[begin:end] * chance.choice((1, 1, 2, 20)) + data[end:]


def _blow_up(chance: random.Random, data: bytes) -> bytes:
    begin, end = _span(chance, data)
    piece = data[begin:end] or b"x"
    return data[:end] + piece * (_BIG // len(piece)) + data[end:]


def _insert(chance: random.Random, data: bytes) -> bytes:
    at = _place(chance, data)
    piece = chance.choice((*_BYTES, *(w.encode() for w in (*_WORDS, *_NUMBERS))))
    return data[:at] + piece + data[at:]


def _nest(chance: random.Random, data: bytes) -> bytes:
    at, depth = _place(chance, data), chance.choice((10, 200, 900, 1100, _DEEP))
    opening = chance.choice((b"[", b"{", b'{"a":', b"(", b'"a":['))
    closing = chance.choice((b"", {b"[": b"]", b"(": b")"}.get(opening, b"}")))
    return data[:at] + opening * depth + closing * depth + data[at:]


def _truncate(chance: random.Random, data: bytes) -> bytes:
    return data[: _place(chance, data)]


def _number(chance: random.Random, data: bytes) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    match = chance.choice(found)
    return data[: match.start()] + chance.choice(_NUMBERS).encode() + data[match.end() :]


def _lines(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = lines[at].rstrip(b"\r\n")
        case _:
            lines[at] = chance.choice((b"\n", b"\r", b" \n", b"\0\n"))
    return b"".join(lines)


def _encode(chance: random.Random, data: bytes) -> bytes:
    codec = chance.choice(("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp037"))
    return data.decode(errors="replace").encode(codec, errors="replace")


def _mark(chance: random.Random, data: bytes) -> bytes:
    return chance.choice(_BYTES) + data


def _ends(chance: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", chance.choice((b"\r\n", b"\r", b"\n\n", b"\x0b", b"\x00")))


def _empty(chance: random.Random, data: bytes) -> bytes:
    return chance.choice((b"", b"\n", b" ", b"\0", codecs.BOM_UTF8))


_OF_BYTES: list[Edit] = [
    _flip, _set, _delete, _duplicate, _insert, _insert, _nest, _truncate, _number, _number, _lines,
    _encode, _mark, _ends, _blow_up, _empty,
]  # fmt: skip


# -- JSON --------------------------------------------------------------------------------


def _places(value: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Every place in a value: what holds it, and under which key."""
    found = [] if found is None else found
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            _places(value[key], found)
    return found


def _edit_value(chance: random.Random, value: Any) -> Any:
    """Change something within a value, or the value."""
    places = _places(value) if isinstance(value, dict | list) else []
    if not places or chance.random() < 0.02:
        return chance.choice(_VALUES)
    holder, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice((*_WORDS, *holder))] = holder.pop(key)
        case 2 if isinstance(holder, dict):
            holder[chance.choice(_WORDS)] = chance.choice(_VALUES)
        case 3:
            other, place = chance.choice(places)
            holder[key] = other[place] if other is not holder else chance.choice(_VALUES)
        case _:
            holder[key] = chance.choice(_VALUES)
    return value


def _dump(value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):  # what was put into itself; an endless number
        return b'{"a": ' + b"9" * 5000 + b"}"


def _load(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _json(chance: random.Random, data: bytes) -> bytes:
    value = _load(data)
    return data if value is None else _dump(_edit_value(chance, value))


def _json_line(chance: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    value = _load(lines[at])
    if value is not None:
        lines[at] = _dump(_edit_value(chance, value))
    return b"\n".join(lines)


def _twice(chance: random.Random, data: bytes) -> bytes:
    """A key that is there twice."""
    found = list(re.finditer(rb'"(\w+)": ?', data))
    if not found:
        return data
    match = chance.choice(found)
    return data[: match.start()] + match[0] + b"1, " + data[match.start() :]


# -- CSV and TOML --------------------------------------------------------------------------


def _cell(chance: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    cells = lines[at].split(b",")
    place = chance.randrange(len(cells))
    match chance.randrange(5):
        case 0:
            del cells[place]
        case 1:
            cells.insert(place, cells[place])
        case 2:
            cells[place] = b'"' + cells[place] + chance.choice((b"", b'"', b'""'))
        case _:
            cells[place] = chance.choice((*_NUMBERS, *_WORDS)).encode()
    lines[at] = b",".join(cells)
    return b"\n".join(lines)


def _column(chance: random.Random, data: bytes) -> bytes:
    """A column that is there twice, or no more, in every row."""
    lines = [line.split(b",") for line in data.split(b"\n")]
    place, other = chance.randrange(len(lines[0])), chance.randrange(len(lines[0]))
    for cells in lines:
        if place < len(cells) and other < len(cells):
            if chance.random() < 0.5:
                cells[place] = cells[other]
            else:
                del cells[place]
    return b"\n".join(b",".join(cells) for cells in lines)


def _toml_value(chance: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    places = [i for i, line in enumerate(lines) if b"=" in line] or [0]
    at = chance.choice(places)
    key = lines[at].partition(b"=")[0].strip() or b"a"
    values = (
        *_NUMBERS, "[]", "[[]]", "{}", '""', '"x"', '"\\u0000"', "[1, 'a']", "{a = 1}",
        "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z",
        "'''a\nb'''", '"\\ud800"', "true", "[" * 2000, '"~x/y"',
    )  # fmt: skip
    match chance.randrange(4):
        case 0:
            lines[at] = chance.choice(_WORDS).encode() + b" = 1"
        case 1:
            lines.insert(at, lines[at])
        case _:
            lines[at] = key + b" = " + chance.choice(values).encode()
    return b"\n".join(lines)


def _toml_table(chance: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    name = chance.choice((b"scheduler", b"kv", b"policy", b"gate", b"x", b"a.b.c", b'""'))
    lines.insert(at, chance.choice((b"[%s]", b"[[%s]]", b"[%s.%s]" % (name, b"%s"))) % name)
    return b"\n".join(lines)


_OF_FORM: dict[str, tuple[Edit, ...]] = {
    "json": (_json, _json, _json, _twice),
    "jsonl": (_json_line, _json_line, _json_line, _twice),
    "csv": (_cell, _cell, _cell, _column),
    "toml": (_toml_value, _toml_value, _toml_table, _cell),
}
