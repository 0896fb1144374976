"""A bell that other threads ring, and on which the driving thread sleeps."""

from __future__ import annotations

import itertools
import threading


class Bell:
    """Wakes the thread that drives a scheduler.

    Attributes:
        num_rings: Another number after each ring. Read it before looking for work, and give
            it to ``wait``: a ring in between is not lost.
    """

    def __init__(self) -> None:
        self.num_rings = 0
        self._numbers = itertools.count(1)
        self._rang = threading.Event()

    def ring(self) -> None:
        """Wake the thread that sleeps; from any thread."""
        self.num_rings = next(self._numbers)  # two threads never store the same
        self._rang.set()

    def wait(self, num_rings: int, seconds: float) -> None:
        """Sleep until it has rung since ``num_rings`` was read, or for some time (seconds)."""
        self._rang.clear()
        if self.num_rings == num_rings:
            self._rang.wait(seconds)
