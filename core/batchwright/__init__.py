"""Batchwright: a plugin framework for scheduling LLM inference.

What is exported here is for programs that drive a scheduler. ``batchwright.plugin`` is for
authors of plugins, ``batchwright.testing`` for tests of components; everything else is
private.
"""

from batchwright.clock import Clock, MonotonicClock, VirtualClock
from batchwright.exceptions import (
    BatchwrightError,
    ConfigError,
    ExecutorError,
    ModelError,
    PluginError,
    RequestRefusedError,
    StepError,
)
from batchwright.messages import ModelOutput, RequestOutput, SchedulerOutput, StepOutputs
from batchwright.request import Request, RequestStatus
from batchwright.sampling_params import SamplingParams
from batchwright.scheduler import Scheduler
from batchwright.version import VERSION

__all__ = [
    "BatchwrightError",
    "Clock",
    "ConfigError",
    "ExecutorError",
    "ModelError",
    "ModelOutput",
    "MonotonicClock",
    "PluginError",
    "Request",
    "RequestOutput",
    "RequestRefusedError",
    "RequestStatus",
    "SamplingParams",
    "Scheduler",
    "SchedulerOutput",
    "StepError",
    "StepOutputs",
    "VirtualClock",
    "__version__",
]

__version__ = VERSION
