"""Read traces line by line, and report broken lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from batchwright.exceptions import ConfigError
from batchwright_lab.text_lines import require_file, text_lines
from batchwright_plugins.text_file import read_text

__all__ = ["MOST_SECONDS", "MOST_TOKENS", "TraceFile", "parse_json", "short"]

MOST_TOKENS: Final = 10_000_000
"""More than any model holds, and than memory should be asked for."""
MOST_SECONDS: Final = 1e12
"""Thirty thousand years; beyond it a clock cannot separate steps."""
_SHORT: Final = 8
"""Decimals of a number that is below it in any case."""


class TraceFile:
    """A text file, one record a line.

    Args:
        path: As the option says it.
        folder: Start of a relative path.
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
        require_file(self.path, self._option)
        for number, line in enumerate(text_lines(self.path, self._option), 1):
            if not line.isspace():
                yield number, line.rstrip("\r\n")

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Its lines as JSON objects, with their numbers, from 1.

        Raises:
            ConfigError: It cannot be read, or a line is no JSON object.
        """
        for number, line in self.lines():
            try:
                record = parse_json(line)
            except ValueError as error:
                raise self.broken(number, f"a JSON object ({error})", line) from None
            if not isinstance(record, dict):
                raise self.broken(number, "a JSON object", record)
            yield number, record

    def text(self) -> str:
        """All of it.

        Raises:
            ConfigError: It cannot be read.
        """
        require_file(self.path, self._option)
        return read_text(self.path, self._option)

    def broken(self, number: int, expected: str, got: Any) -> ConfigError:
        """Return the error for a line."""
        return ConfigError(f"expected {expected}, got {short(got)}", source=f"{self.path}:{number}")

    def empty(self) -> ConfigError:
        """Return the error for a file without a record."""
        return ConfigError("holds no request", source=str(self.path))

    def seconds(self, number: int, name: str, value: Any, *, per_second: int = 1) -> float:
        """Check a time, a number of JSON.

        Args:
            number: The line.
            name: Its name in the file.
            value: Its value in the file.
            per_second: Its unit, as how many of them are a second.

        Raises:
            ConfigError: It is none: no number, negative, infinite or far beyond all clocks.
        """
        try:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            time = value / per_second if is_number else -1.0
        except OverflowError:
            time = -1.0
        if not 0 <= time <= MOST_SECONDS:
            unit = "milliseconds" if per_second == 1000 else "seconds"
            expected = f"{name}, {unit} >= 0 and <= {MOST_SECONDS * per_second:g}"
            raise self.broken(number, expected, value)
        return time

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
        if not least <= count <= MOST_TOKENS or isinstance(value, bool):
            expected = f"{name}, an integer >= {least} and <= {MOST_TOKENS}"
            raise self.broken(number, expected, value)
        return count


def parse_json(text: str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: It is none, or nothing that can be read; says why.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def short(value: Any) -> str:
    """A value as it is shown in a message."""
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # an integer of thousands of digits
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
