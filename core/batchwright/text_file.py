"""Text files of users: UTF-8, with a byte-order mark or without."""

from __future__ import annotations

import codecs
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from batchwright.exceptions import ConfigError

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
    with opening(path, option):
        file = path.open("rb")
    with file:
        check_kind(file, path, option)
        with opening(path, option):
            return decode_text(file.read(), str(path))


def decode_text(data: bytes, source: str) -> str:
    """Decode the content of a text file; ends of lines become newlines.

    Args:
        data: All of it.
        source: The file, for messages.

    Raises:
        ConfigError: It is no UTF-8; names the file and the line.
    """
    check_encoding(data[:4], source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(data, error, source) from error
    return text.replace("\r\n", "\n")


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
def opening(path: Path, option: str) -> Iterator[None]:
    """Name a file that cannot be opened or read."""
    try:
        yield
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise unreadable(error, path, option) from error


def unreadable(error: Exception, path: Path, option: str) -> ConfigError:
    """Return the error of a file that cannot be read."""
    problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return file_problem(problem, path, option)


def file_problem(problem: str, path: Path, option: str) -> ConfigError:
    """Name the file, and the option that names it if there is one."""
    if option:
        return ConfigError(f"{problem}: {path}", path=option)
    return ConfigError(problem, source=str(path))


def check_kind(file: BinaryIO, path: Path, option: str) -> None:
    """Refuse a device, which may never end; a terminal is typed at."""
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty()):
        raise file_problem("cannot be read: it is a device", path, option)


def check_encoding(head: bytes, source: str) -> None:
    """Refuse a file whose first bytes say that it is no UTF-8."""
    for mark, problem in _FOREIGN:
        if head.startswith(mark):
            raise ConfigError(problem, source=source)


def not_utf8(data: bytes, error: UnicodeDecodeError, source: str, before: int = 0) -> ConfigError:
    """Return the error of bytes that are no UTF-8, with their line."""
    number = before + data.count(b"\n", 0, error.start) + 1
    problem = f"expected UTF-8, got the byte {data[error.start]:#04x}"
    return ConfigError(problem, source=f"{source}:{number}")
