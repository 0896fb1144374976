"""The sleep of an engine in which nothing can be computed."""

from __future__ import annotations

import logging
from typing import Final

from batchwright.clock import MonotonicClock
from batchwright.protocols import Executor, SchedulerBase

_log = logging.getLogger("batchwright.engine")

LONGEST_SLEEP: Final = 1.0
"""Most seconds that a step sleeps, if only an event outside can go on."""
POLL: Final = 0.005
"""Seconds between two looks, if the awaited event rings no bell."""


class IdleEngine:
    """Sleeps until something can be computed again.

    Args:
        scheduler: The scheduler, whose bell rings.
        executor: The executor, whose worker sides may answer later.

    Attributes:
        has_warned: True if it was said that only an event outside can go on.
    """

    def __init__(self, scheduler: SchedulerBase, executor: Executor) -> None:
        self._scheduler = scheduler
        self._executor = executor
        self.has_warned = False

    def wait(self, num_rings: int) -> None:
        """Sleep until a signal, a request or an abort comes, since nothing could be computed.

        At most until the next clock timer, and at most a second, so that what drives the engine
        may look at other things.

        Args:
            num_rings: Rings of the scheduler's bell before the step was planned.
        """
        scheduler, clock, seconds = self._scheduler, self._scheduler.clock, LONGEST_SLEEP
        if scheduler.has_signals:
            return  # some request was woken
        alarm, awaits_outside = scheduler.next_timer, scheduler.awaits_outside
        if alarm is not None and not isinstance(clock, MonotonicClock):
            clock.wait_until(alarm)
            return
        if alarm is not None:
            seconds = max(0.0, min(seconds, alarm - clock.now()))
        elif awaits_outside and not self.has_warned:
            self.has_warned = True
            _log.warning("nothing can be computed before an event outside: %s", self._waiting())
        if self._executor.has_worker_sides or scheduler.awaits_resource or scheduler.view.is_paused:
            seconds = min(seconds, POLL)  # what comes of it rings no bell
        elif alarm is None and not awaits_outside:
            return  # the progress guard will step in
        scheduler.bell.wait(num_rings, seconds)

    def _waiting(self) -> str:
        """Some requests that wait, and why."""
        requests = list(self._scheduler.requests.values())[:5]
        return ", ".join(f"{r.request_id} ({r.waiting_reason})" for r in requests)
