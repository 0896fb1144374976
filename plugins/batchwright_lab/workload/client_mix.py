"""The files of a client mix: how each client's requests arrive, and how long they are."""

from __future__ import annotations

import bisect
import csv
import json
import lzma
import random
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from attrs import define, frozen

from batchwright.exceptions import ConfigError
from batchwright_lab.text_lines import require_file
from batchwright_lab.workload.lines import MOST_SECONDS, MOST_TOKENS, parse_json, short
from batchwright_plugins.text_file import decode_text, read_text

__all__ = ["Client", "Window", "read_clients"]

_NAME: Final = re.compile(r"chunk-(\d{1,9})-(trace\.csv|dataset\.json)")
_UNREADABLE: Final = (
    OSError,
    EOFError,  # a compressed archive that was cut
    ValueError,
    OverflowError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
)
_MOST_MEMBERS: Final = 100_000
_MOST_BYTES: Final = 1 << 26
_MOST_RATE: Final = 1e6
_MOST_WEIGHT: Final = 1e15
_SHAPES: Final = (0.01, 1e6)
"""Shapes of gaps that can be drawn; 0 where there are none."""


@frozen
class Window:
    """A client's arrivals for some time.

    Args:
        start: Seconds.
        rate: Mean arrivals (1/s).
        family: ``Gamma`` or ``Weibull`` gaps; else exponential ones.
        shape: Of that distribution.
    """

    start: float
    rate: float
    family: str
    shape: float


class Histogram:
    """A distribution of lengths.

    Args:
        weights: By length (tokens), how often it is seen.
    """

    def __init__(self, weights: Mapping[int, float]) -> None:
        self._lengths = sorted(weights)
        self._sums = list(accumulate(weights[length] for length in self._lengths))

    @property
    def most(self) -> int:
        return self._lengths[-1]

    def draw(self, chance: random.Random) -> int:
        """A length (tokens)."""
        index = bisect.bisect(self._sums, chance.random() * self._sums[-1])
        return max(1, self._lengths[min(index, len(self._lengths) - 1)])


@define
class Client:
    """One client.

    Args:
        number: Which one.
        windows: In order of time, those in which something arrives and all others.
        lengths: By the start of a span (s), prompt and output lengths in it.
    """

    number: int
    windows: list[Window]
    lengths: dict[float, tuple[Histogram, Histogram]]

    @property
    def rate(self) -> float:
        """Mean arrivals over all windows (1/s)."""
        return sum(window.rate for window in self.windows) / max(1, len(self.windows))

    def lengths_at(self, time: float) -> tuple[Histogram, Histogram]:
        """Of the last span that began; of the first one, before it."""
        begun = [start for start in self.lengths if start <= time]
        return self.lengths[max(begun) if begun else min(self.lengths)]


def read_clients(path: Path, option: str) -> list[Client]:
    """Read ``chunk-N-trace.csv`` and ``chunk-N-dataset.json`` of a folder or a tar archive.

    Raises:
        ConfigError: It cannot be read, holds no client, or a file is broken.
    """
    texts: dict[tuple[int, str], tuple[str, str]] = {}
    try:
        for name, text in _files(path, option):
            match = _NAME.fullmatch(Path(name).name)
            if match is not None:
                texts[int(match[1]), match[2]] = name, text
    except _UNREADABLE as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}: {path}"
        raise ConfigError(problem, path=option) from error
    numbers = sorted(number for number, kind in texts if kind == "trace.csv")
    clients = []
    for number in numbers:
        if (number, "dataset.json") not in texts:
            missing = f"chunk-{number}-dataset.json"
            raise ConfigError(f"has chunk-{number}-trace.csv, but no {missing}", source=str(path))
        lengths = dict(_lengths(*texts[number, "dataset.json"]))
        name, text = texts[number, "trace.csv"]
        windows = list(_windows(name, text))
        if not windows:
            raise ConfigError("holds no window of time", source=f"{name}:1")
        if lengths:
            clients.append(Client(number, windows, lengths))
    if not clients:
        raise ConfigError("holds no chunk-N-trace.csv with lengths", source=str(path))
    return clients


def _files(path: Path, option: str) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        for file in sorted(path.rglob("chunk-*")):
            yield str(file), read_text(file, option)
        return
    require_file(path, option)
    with tarfile.open(path) as archive:
        for number, member in enumerate(archive):
            if number >= _MOST_MEMBERS or not 0 <= member.size <= _MOST_BYTES:
                bounds = f"at most {_MOST_MEMBERS} files of at most {_MOST_BYTES >> 20} MiB"
                raise tarfile.TarError(f"expected {bounds}, not {member.name!r}")
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                name = f"{path}:{member.name}"
                yield name, decode_text(content.read(), name)


def _windows(name: str, text: str) -> Iterator[Window]:
    last = -1.0
    reader = csv.reader(text.split("\n"))
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise ConfigError(f"is no CSV: {error}", source=f"{name}:{reader.line_num}") from None
        if row is None:
            return
        if row:
            window = _window(f"{name}:{reader.line_num}", row, last)
            last = window.start
            yield window


def _window(where: str, row: list[str], last: float) -> Window:
    try:
        start, rate, _cv, family, shape, _scale = row
        window = Window(float(start), float(rate), family, float(shape))
    except ValueError:
        expected = "start, rate, cv, family and two parameters"
        raise ConfigError(f"expected {expected}, got {short(row)}", source=where) from None
    if not (last < window.start <= MOST_SECONDS and 0 <= window.rate <= _MOST_RATE):
        expected = f"a later start and a rate >= 0 and <= {_MOST_RATE:g}"
        raise ConfigError(f"expected {expected}, got {short(row)}", source=where)
    if window.shape and not _SHAPES[0] <= window.shape <= _SHAPES[1]:
        expected = f"a shape from {_SHAPES[0]:g} to {_SHAPES[1]:g}, or 0"
        raise ConfigError(f"expected {expected}, got {short(row)}", source=where)
    return window


def _lengths(name: str, text: str) -> Iterator[tuple[float, tuple[Histogram, Histogram]]]:
    try:
        spans = parse_json(text)
    except json.JSONDecodeError as error:
        raise _broken(f"{name}:{error.lineno}", error.msg) from None
    except ValueError as error:
        raise _broken(f"{name}:1", str(error)) from None
    if not isinstance(spans, dict):
        raise _broken(f"{name}:1", "it is no object")
    for start, span in spans.items():
        try:
            begin = float(start)
            if not 0 <= begin <= MOST_SECONDS:
                raise ValueError(f"a span begins at {short(start)}")
            found = [_weights(key, span[key]) for key in ("input_tokens", "output_tokens")]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            # The file is one line: the span says where.
            raise _broken(f"{name}:1: span {short(start)}", _why(error)) from None
        if all(found):
            yield begin, (Histogram(found[0]), Histogram(found[1]))


def _why(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def _broken(where: str, why: str) -> ConfigError:
    expected = "input_tokens and output_tokens, histograms, by start of a span"
    return ConfigError(f"expected {expected} ({why})", source=where)


def _weights(key: str, value: Any) -> dict[int, float]:
    """A histogram, as an object or as the text of a Python dict."""
    pairs = list(value.items()) if isinstance(value, dict) else _pairs(key, value)
    weights: dict[int, float] = {}
    for length, weight in ((float(length), float(weight)) for length, weight in pairs):
        if not (length.is_integer() and 0 <= length <= MOST_TOKENS and 0 <= weight <= _MOST_WEIGHT):
            raise ValueError(f"{key} has {weight:g} at {length:g} tokens")
        if weight:
            weights[int(length)] = weight
    return weights


def _pairs(key: str, value: Any) -> list[tuple[str, str]]:
    text = value.strip() if isinstance(value, str) else ""
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"{key} is {short(value)}")
    items = [item.partition(":") for item in text[1:-1].split(",") if item.strip()]
    return [(length, weight) for length, _, weight in items]
