"""The scheduler: one step, two scans; and what any scheduler can be made of."""

from batchwright.scheduler.components import Components
from batchwright.scheduler.scheduler import StepScheduler
from batchwright.scheduler.settings import SchedulerSettings
from batchwright.scheduler.step import Step
from batchwright.scheduler.unified import Scheduler

__all__ = ["Components", "Scheduler", "SchedulerSettings", "Step", "StepScheduler"]
