"""Whole schedulers. The default one is part of the core; it is offered as any other is."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import SchedulerBase
from batchwright.scheduler import Scheduler


@hookimpl
def batchwright_register_scheduler() -> list[type[SchedulerBase]]:
    return [Scheduler]
