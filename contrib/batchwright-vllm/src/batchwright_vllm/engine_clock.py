"""Seconds since vLLM's engine started, as the clock of components."""

from __future__ import annotations

import time

__all__ = ["EngineClock"]


class EngineClock:
    """The monotonic clock, from 0 at its creation, as a simulation's clock does."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._epoch = time.time()

    def now(self) -> float:
        return time.monotonic() - self._start

    def at(self, epoch_seconds: float) -> float:
        """Return the time on this clock of a stamp that another process took by ``time.time()``."""
        return epoch_seconds - self._epoch

    def wait_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - self.now()))
