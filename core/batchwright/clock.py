"""The only place where time comes from."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The interface of a clock."""

    def now(self) -> float:
        """Seconds since some fixed moment; never decreases."""

    def wait_until(self, moment: float) -> None:
        """Return when ``now()`` has reached the moment."""


wall_seconds = time.monotonic
"""The machine's monotonic clock without an object: for what is timed at every step."""


class MonotonicClock:
    """The machine's monotonic clock, from 0 at its creation."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._start

    def wait_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - self.now()))


class VirtualClock:
    """A clock that stands until it is moved; for simulation and tests."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def wait_until(self, moment: float) -> None:
        if moment > self._now:
            self._now = moment

    def advance(self, seconds: float) -> None:
        """Move the time forward.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds}")
        self._now += seconds
