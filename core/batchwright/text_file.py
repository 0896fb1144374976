"""Text files of users: UTF-8, with a byte-order mark or without."""

from __future__ import annotations

import codecs
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, Final

from batchwright.exceptions import ConfigError

__all__ = ["decode_text", "parse_toml", "read_text", "require_file", "text_lines"]

_FOREIGN: Final = (  # UTF-32's mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "is UTF-32; save it as UTF-8"),
    (codecs.BOM_UTF32_BE, "is UTF-32; save it as UTF-8"),
    (codecs.BOM_UTF16_LE, "is UTF-16; save it as UTF-8"),
    (codecs.BOM_UTF16_BE, "is UTF-16; save it as UTF-8"),
    (b"\x1f\x8b", "is compressed (gzip); unpack it first"),
    (b"PK\x03\x04", "is compressed (zip); unpack it first"),
)
_MOST_DEPTH: Final = 100
_KEY: Final = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY: Final = re.compile(
    rf"^[ \t]*+\[{{0,2}}+[ \t]*+(?:{_KEY}[ \t]*+\.[ \t]*+){{{_MOST_DEPTH}}}", re.MULTILINE
)


def read_text(path: Path, option: str = "") -> str:
    """Read a text file as a whole.

    Args:
        path: The file, or a pipe.
        option: TOML path of the option that names it.

    Raises:
        ConfigError: It cannot be read, or is no UTF-8; names the file, and the line.
    """
    with _opening(path, option):
        file = path.open("rb")
    with file:
        _check_kind(file, path, option)
        with _opening(path, option):
            return decode_text(file.read(), str(path))


def text_lines(path: Path, option: str = "", *, errors: str = "strict") -> Iterator[str]:
    """Read a text file line by line; each line has its end.

    Args:
        path: The file, or a pipe.
        option: TOML path of the option that names it.
        errors: Treatment of bytes that are not UTF-8, as for ``open``.

    Raises:
        ConfigError: It cannot be read, or is no UTF-8; names the file, and the line.
    """
    try:
        with _opening(path, option):
            file = path.open("rb")
        with file:
            _check_kind(file, path, option)
            with _opening(path, option):
                _check_encoding(file.peek(4), str(path))
            yield from TextIOWrapper(file, encoding="utf-8-sig", errors=errors)
    except UnicodeDecodeError as error:
        raise _undecodable(path) from error
    except OSError as error:
        raise _unreadable(error, path, option) from error


def decode_text(data: bytes, source: str) -> str:
    """Decode the content of a text file; ends of lines become newlines.

    Args:
        data: All of it.
        source: The file, for messages.

    Raises:
        ConfigError: It is no UTF-8; names the file and the line.
    """
    _check_encoding(data[:4], source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(data, error, source) from error
    return text.replace("\r\n", "\n")


def require_file(path: Path, option: str = "") -> None:
    """Refuse a pipe, where something is read more than once.

    Raises:
        ConfigError: It is there, and no regular file.
    """
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file, and is read more than once"
        raise _named(f"cannot be read: it is {what}", path, option)


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Parse TOML.

    Args:
        text: All of it.
        source: The file, for messages.

    Raises:
        ConfigError: It is none; names the file, and the line as far as that is known.
    """
    deep = _DEEP_KEY.search(text)
    if deep is not None:  # tomllib would take quadratic time
        line = text.count("\n", 0, deep.start()) + 1
        raise ConfigError("is not valid TOML: a key has too many parts", source=f"{source}:{line}")
    try:
        table = tomllib.loads(text)
        _check_values(table, text, source)
        return table
    except RecursionError:
        raise ConfigError("is not valid TOML: it is nested too deeply", source=source) from None
    except ValueError as error:  # an integer of thousands of digits is one, too
        raise ConfigError(f"is not valid TOML: {error}", source=source) from error


def _check_values(table: dict[str, Any], text: str, source: str) -> None:
    """Refuse what TOML has not (integers beyond 64 bits), and tables in tables without end."""
    pairs: list[tuple[str, Any, int]] = [(name, value, 1) for name, value in table.items()]
    while pairs:
        path, value, depth = pairs.pop()
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            from batchwright.config.locating import line_of  # that package reads files by this one

            place = f"{source}:{line_of(text, path)}"
            raise ConfigError("expected an integer of 64 bits", path=path, source=place)
        if depth > _MOST_DEPTH:
            path = f"{path[:60]}..."
            raise ConfigError("is nested too deeply", path=path, source=source)
        if isinstance(value, dict):
            pairs += [(f"{path}.{name}", item, depth + 1) for name, item in value.items()]
        elif isinstance(value, list):
            pairs += [(f"{path}[{i}]", item, depth + 1) for i, item in enumerate(value)]


@contextmanager
def _opening(path: Path, option: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise _unreadable(error, path, option) from error


def _unreadable(error: Exception, path: Path, option: str) -> ConfigError:
    problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return _named(problem, path, option)


def _named(problem: str, path: Path, option: str) -> ConfigError:
    """Name the file, and the option that names it if there is one."""
    if option:
        return ConfigError(f"{problem}: {path}", path=option)
    return ConfigError(problem, source=str(path))


def _check_kind(file: BinaryIO, path: Path, option: str) -> None:
    """Refuse a device, which may never end; a terminal is typed at."""
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty()):
        raise _named("cannot be read: it is a device", path, option)


def _check_encoding(head: bytes, source: str) -> None:
    for mark, problem in _FOREIGN:
        if head.startswith(mark):
            raise ConfigError(problem, source=source)


def _not_utf8(data: bytes, error: UnicodeDecodeError, source: str, before: int = 0) -> ConfigError:
    number = before + data.count(b"\n", 0, error.start) + 1
    problem = f"expected UTF-8, got the byte {data[error.start]:#04x}"
    return ConfigError(problem, source=f"{source}:{number}")


def _undecodable(path: Path) -> ConfigError:
    """Find the line of a file that is no UTF-8, once that is known of it."""
    with path.open("rb") as file:
        for number, line in enumerate(file if path.is_file() else ()):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return _not_utf8(line, error, str(path), number)
    return ConfigError("expected UTF-8", source=str(path))
