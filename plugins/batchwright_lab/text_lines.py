"""Text files that are read line by line."""

from __future__ import annotations

from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

from batchwright.exceptions import ConfigError
from batchwright_plugins.text_file import check_encoding, not_utf8, opened, unreadable

__all__ = ["require_file", "text_lines"]


def text_lines(path: Path, option: str = "", *, errors: str = "strict") -> Iterator[str]:
    """Read a text file line by line; each line has its end.

    Args:
        path: The file, or a pipe.
        option: TOML path of the option that names it.
        errors: Treatment of bytes that are not UTF-8, as for ``open``.

    Raises:
        ConfigError: It cannot be read, or is no UTF-8; names the file, and the line.
    """
    with opened(path, option) as file:
        check_encoding(file.peek(4), str(path))
        try:
            yield from TextIOWrapper(file, encoding="utf-8-sig", errors=errors)
        except UnicodeDecodeError as error:
            raise _undecodable(path) from error


def require_file(path: Path, option: str = "") -> None:
    """Refuse a pipe, where something is read more than once.

    Raises:
        ConfigError: It is there, and no regular file.
    """
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file, and is read more than once"
        raise unreadable(f"it is {what}", path, option)


def _undecodable(path: Path) -> ConfigError:
    """Find the line of a file that is no UTF-8, once that is known of it."""
    with path.open("rb") as file:
        for number, line in enumerate(file if path.is_file() else ()):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return not_utf8(error, str(path), number)
    return ConfigError("expected UTF-8", source=str(path))
