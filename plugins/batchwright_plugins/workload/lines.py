"""Reads traces line by line, and says what is wrong with a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from batchwright.exceptions import ConfigError

__all__ = ["TraceFile"]

_MOST_TOKENS: Final = 100_000_000
"""More than any model holds, and than memory should be asked for."""
_SHORT: Final = 9
"""Decimals of a number that is below it in any case."""


class TraceFile:
    """A text file, one record a line.

    Args:
        path: As the option says it.
        folder: Where a relative one starts.
        option: TOML path of the option, for messages.

    Raises:
        ConfigError: No file is named.
    """

    def __init__(self, path: str, folder: Path, option: str) -> None:
        if not path:
            raise ConfigError("names no file; e.g. --workload NAME:FILE", path=option)
        self.path = folder / Path(path).expanduser()
        self._option = option

    def lines(self) -> Iterator[tuple[int, str]]:
        """Its lines that are not blank, with their numbers, from 1.

        Raises:
            ConfigError: It cannot be read.
        """
        try:
            with self.path.open(encoding="utf-8-sig") as file:
                for number, line in enumerate(file, 1):
                    if not line.isspace():
                        yield number, line.rstrip("\r\n")
        except OSError as error:
            raise ConfigError(
                f"cannot be read: {error.strerror}: {self.path}", path=self._option
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"is not UTF-8: {error}", source=str(self.path)) from error

    def broken(self, number: int, expected: str, got: Any) -> ConfigError:
        """What to raise for a line."""
        shown = repr(got)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        return ConfigError(f"expected {expected}, got {shown}", source=f"{self.path}:{number}")

    def empty(self) -> ConfigError:
        """What to raise for a file without a record."""
        return ConfigError("holds no request", source=str(self.path))

    def count(self, number: int, name: str, value: Any, least: int = 1) -> int:
        """Check a number of tokens, from text or JSON.

        Raises:
            ConfigError: It is none.
        """
        is_short = type(value) is str and value.isdecimal() and len(value) < _SHORT
        if is_short and (count := int(value)) >= least:
            return count  # what nearly all of them are
        try:
            count = int(value) if not isinstance(value, float) or value.is_integer() else -1
        except (TypeError, ValueError):
            count = -1
        if not least <= count <= _MOST_TOKENS or isinstance(value, bool):
            expected = f"{name}, an integer >= {least} and <= {_MOST_TOKENS}"
            raise self.broken(number, expected, value)
        return count
