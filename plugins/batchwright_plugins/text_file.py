"""Text files of users: UTF-8, with a byte-order mark or without."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final

from batchwright.exceptions import ConfigError

_FOREIGN: Final = (  # UTF-32's mark begins with UTF-16's
    ((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "is UTF-32; save it as UTF-8"),
    ((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "is UTF-16; save it as UTF-8"),
    (b"\x1f\x8b", "is compressed (gzip); unpack it first"),
    (b"PK\x03\x04", "is compressed (zip); unpack it first"),
)


def read_text(path: Path, option: str = "") -> str:
    """Read a text file as a whole.

    Args:
        path: The file, or a pipe.
        option: TOML path of the option that names it.

    Raises:
        ConfigError: It cannot be read, or is no UTF-8; names the file, and the line.
    """
    with opened(path, option) as file:
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
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise not_utf8(error, source) from error


@contextmanager
def opened(path: Path, option: str) -> Iterator[BufferedReader]:
    """Open a file; a device, which may never end, is none, but a terminal is typed at.

    Args:
        path: The file, or a pipe.
        option: TOML path of the option that names it; may be empty.

    Raises:
        ConfigError: It cannot be opened, or read.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty()):
                raise OSError("it is a device")
            yield file
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise unreadable(getattr(error, "strerror", None) or error, path, option) from error


def unreadable(reason: object, path: Path, option: str) -> ConfigError:
    """Name a file that cannot be read, or the option that names it if there is one."""
    problem = f"cannot be read: {reason}"
    if option:
        return ConfigError(f"{problem}: {path}", path=option)
    return ConfigError(problem, source=str(path))


def check_encoding(head: bytes, source: str) -> None:
    """Refuse a file whose first bytes say that it is no UTF-8."""
    for marks, problem in _FOREIGN:
        if head.startswith(marks):
            raise ConfigError(problem, source=source)


def not_utf8(error: UnicodeDecodeError, source: str, before: int = 0) -> ConfigError:
    """Return the error of bytes that are no UTF-8, with their line."""
    number = before + error.object.count(b"\n", 0, error.start) + 1
    problem = f"expected UTF-8, got the byte {error.object[error.start]:#04x}"
    return ConfigError(problem, source=f"{source}:{number}")
