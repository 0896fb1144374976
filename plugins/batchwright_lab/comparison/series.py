"""Samples over time, a bounded number of them however long it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["Series"]

MOST_SAMPLES: Final = 256
_FIRST_GAP: Final = 0.05


class Series:
    """Samples, no two of them nearer than some time; when there are too many, it doubles.

    Attributes:
        samples: By name, columns of equal length; ``time`` in seconds.
        service: By client, service until each sample (0 before it was known).
        backlog: By client, requests that wait.
    """

    def __init__(self) -> None:
        self.samples: dict[str, list[float]] = {
            name: [] for name in ("time", "waiting", "running", "kv")
        }
        self.service: dict[str, list[int]] = {}
        self.backlog: dict[str, list[int]] = {}
        self._gap = _FIRST_GAP
        self._next = 0.0

    def __len__(self) -> int:
        return len(self.samples["time"])

    def is_due(self, now: float) -> bool:
        """Return True if it is time for a sample."""
        return now >= self._next

    def add(
        self, now: float, *, service: Mapping[str, int], backlog: Mapping[str, int], **values: float
    ) -> None:
        """Take in a sample."""
        num_before = len(self)
        for name, value in {"time": now, **values}.items():
            self.samples[name].append(value)
        for columns, given in ((self.service, service), (self.backlog, backlog)):
            for client in {**columns, **given}:  # in order of first appearance
                column = columns.setdefault(client, [0] * num_before)
                column.append(given.get(client, 0))
        if len(self) > MOST_SAMPLES:
            self._thin()
        self._next = now + self._gap

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {**self.samples, "service": self.service, "backlog": self.backlog}

    def _thin(self) -> None:
        self._gap *= 2
        for columns in (self.samples, self.service, self.backlog):
            for column in columns.values():
                del column[1::2]
