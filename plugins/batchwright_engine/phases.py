"""The time of the parts of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

from batchwright.clock import Clock, wall_seconds
from batchwright.protocols.executor import PhaseNotes

Args = TypeVarTuple("Args")
Answer = TypeVar("Answer")

SCHEDULING: Final = "scheduling"
INPUT_PREPARATION: Final = "input preparation"
FORWARD: Final = "forward"
SAMPLING: Final = "sampling"
BOOKKEEPING: Final = "bookkeeping"

PHASES: Final = (SCHEDULING, INPUT_PREPARATION, FORWARD, SAMPLING, BOOKKEEPING)
"""The phases of a step, in their order; bookkeeping takes what is left."""


class Phases(PhaseNotes):
    """Add up time by phase. Costs a look at the clock a phase and step.

    An engine and its executor share one; an executor that names no phases has all of
    its time counted as ``forward``.

    Args:
        clock: Whose seconds are counted.

    Attributes:
        seconds: By phase, seconds since the start.
        num_steps: Steps that were begun.
    """

    __slots__ = ("_clock", "_last", "num_steps", "seconds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.now()
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.num_steps = 0

    def start(self) -> None:
        """Begin a step; the time before it is no phase's."""
        self.num_steps += 1
        self.skip()

    def skip(self) -> None:
        """Leave out the time since the last phase ended."""
        self._last = self._clock.now()

    def lap(self, phase: str) -> None:
        """A phase ends: it took the time since the last one did.

        Args:
            phase: One of ``PHASES``.
        """
        now = self._clock.now()
        self.seconds[phase] += now - self._last
        self._last = now


class Decisions:
    """Wall-clock time of deciding: calls of the scheduler, whatever clock it runs on.

    It covers ``add_request()``, ``schedule()`` and ``update_from_output()``. Steps that a
    simulation fast-forwards decide nothing, and are left out.

    Attributes:
        seconds: Time since the start.
        num_steps: Steps that were planned.
        now: The time, in seconds since some fixed moment.
    """

    __slots__ = ("now", "num_steps", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.num_steps = 0
        self.now = wall_seconds

    def timed(self, call: Callable[[*Args], Answer], *args: *Args) -> Answer:
        """Call the scheduler, and add the time of the call."""
        began = self.now()
        try:
            return call(*args)
        finally:
            self.seconds += self.now() - began

    @property
    def seconds_mean(self) -> float | None:
        """Time a planned step; None if there was none."""
        return self.seconds / self.num_steps if self.num_steps else None
