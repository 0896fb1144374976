"""Snapshots: a scheduler with all that its components remember, as bytes.

A restored scheduler decides what the original would have decided. Not part of a
snapshot are the clock and the observers, which belong to the run that took it.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

from batchwright.clock import Clock, MonotonicClock, VirtualClock
from batchwright.exceptions import OUTSIDE, BatchwrightError
from batchwright.protocols import Component, Observer

if TYPE_CHECKING:
    from batchwright.scheduler.scheduler import StepScheduler


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.last: Component | None = None

    def persistent_id(self, value: object) -> str | None:
        if isinstance(value, Observer):
            return "observer"
        if isinstance(value, MonotonicClock | VirtualClock):
            return "clock"
        if isinstance(value, Component):
            self.last = value
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, clock: Clock) -> None:
        super().__init__(file)
        self._clock = clock

    def persistent_load(self, pid: Any) -> object:
        return self._clock if pid == "clock" else Observer(None, None)  # type: ignore[arg-type]


def take(scheduler: StepScheduler) -> bytes:
    """Write a scheduler down.

    Raises:
        BatchwrightError: A component holds something that cannot be written down (a
            lambda, a file, a lock); give it ``__getstate__`` and ``__setstate__``.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(scheduler)
    except OUTSIDE:
        raise
    except BaseException as error:
        who = pickler.last.ctx.label if pickler.last is not None else "the scheduler"
        raise BatchwrightError(
            f"{who} holds something that no snapshot can: {type(error).__name__}: {error}"
        ) from error
    return file.getvalue()


def restore(data: bytes, clock: Clock) -> StepScheduler:
    """Make a scheduler from a snapshot of this version.

    Args:
        data: What ``take`` wrote. Only data that you trust: it is a pickle.
        clock: The clock to go on with; it should show the time of the snapshot.
    """
    scheduler: StepScheduler = _Unpickler(io.BytesIO(data), clock).load()
    return scheduler
