"""Seconds since the epoch, which never run backwards."""

from __future__ import annotations

import time

__all__ = ["EpochClock"]


class EpochClock:
    """The wall clock at its creation, advanced by the monotonic clock.

    vLLM stamps arrivals with ``time.time()``, in other processes of the machine.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset

    def wait_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - self.now()))
