"""The files of a client mix: how each client's requests arrive, and how long they are."""

from __future__ import annotations

import ast
import bisect
import csv
import json
import random
import re
import tarfile
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from attrs import define, frozen

from batchwright.exceptions import ConfigError

__all__ = ["Client", "Window", "read_clients"]

_NAME = re.compile(r"chunk-(\d+)-(trace\.csv|dataset\.json)")


@frozen
class Window:
    """How a client's requests arrive for some time.

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
        for name, text in _files(path):
            match = _NAME.fullmatch(Path(name).name)
            if match is not None:
                texts[int(match[1]), match[2]] = name, text
    except (OSError, tarfile.TarError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}: {path}", path=option) from error
    numbers = sorted(number for number, kind in texts if kind == "trace.csv")
    clients = []
    for number in numbers:
        if (number, "dataset.json") not in texts:
            missing = f"chunk-{number}-dataset.json"
            raise ConfigError(f"has chunk-{number}-trace.csv, but no {missing}", source=str(path))
        lengths = dict(_lengths(*texts[number, "dataset.json"]))
        windows = list(_windows(*texts[number, "trace.csv"]))
        if lengths:
            clients.append(Client(number, windows, lengths))
    if not clients:
        raise ConfigError("holds no chunk-N-trace.csv with lengths", source=str(path))
    return clients


def _files(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        for file in sorted(path.rglob("chunk-*")):
            yield str(file), file.read_text(encoding="utf-8")
        return
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                yield f"{path}:{member.name}", content.read().decode("utf-8")


def _windows(name: str, text: str) -> Iterator[Window]:
    last = -1.0
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        try:
            start, rate, _cv, family, shape, _scale = row
            window = Window(float(start), float(rate), family, float(shape))
        except ValueError:
            expected = "start, rate, cv, family and two parameters"
            raise ConfigError(
                f"expected {expected}, got {row}", source=f"{name}:{number}"
            ) from None
        if not (window.start > last and window.rate >= 0):
            raise ConfigError(
                f"expected a later start and a rate >= 0, got {row}", source=f"{name}:{number}"
            )
        last = window.start
        yield window


def _lengths(name: str, text: str) -> Iterator[tuple[float, tuple[Histogram, Histogram]]]:
    try:
        for start, span in json.loads(text).items():
            prompt, output = (_weights(span[key]) for key in ("input_tokens", "output_tokens"))
            if prompt and output:
                yield float(start), (Histogram(prompt), Histogram(output))
    except (ValueError, KeyError, AttributeError, TypeError, SyntaxError) as error:
        expected = "input_tokens and output_tokens, histograms, by start of a span"
        raise ConfigError(f"expected {expected} ({error!r})", source=name) from error


def _weights(value: Any) -> dict[int, float]:
    weights = ast.literal_eval(value) if isinstance(value, str) else value
    return {int(length): float(weight) for length, weight in weights.items() if weight > 0}
