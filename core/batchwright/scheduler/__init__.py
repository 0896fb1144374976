"""The scheduler: one step, two scans; and the base of other schedulers."""

from batchwright.protocols.components import Components
from batchwright.scheduler.step import Step
from batchwright.scheduler.step_scheduler import StepScheduler
from batchwright.scheduler.unified import Scheduler

__all__ = ["Components", "Scheduler", "Step", "StepScheduler"]
