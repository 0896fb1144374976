"""The scheduler: one step, two scans."""

from batchwright.components import Components
from batchwright.scheduler.scheduler import Scheduler
from batchwright.scheduler.settings import SchedulerSettings

__all__ = ["Components", "Scheduler", "SchedulerSettings"]
