"""Batchwright: a plugin framework for scheduling LLM inference.

What is exported here is the stable interface for those who drive a scheduler or an
engine, and for policies, gates and commands; the contracts of all kinds of components are
in ``batchwright.protocols``, what the scheduler and its executor say to each other is in
``batchwright.messages``, and ``batchwright.testing`` helps to test components.
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
from batchwright.hookspecs import hookimpl
from batchwright.messages import ModelOutput, RequestOutput, SchedulerOutput, StepOutputs
from batchwright.protocols import Command, Gate, SchedulingPolicy
from batchwright.request import Request, RequestStatus
from batchwright.request_view import RequestView
from batchwright.sampling_params import SamplingParams
from batchwright.scheduler import Scheduler
from batchwright.step_view import StepView
from batchwright.version import VERSION
from batchwright_engine.engine import Engine

__all__ = [
    "BatchwrightError",
    "Clock",
    "Command",
    "ConfigError",
    "Engine",
    "ExecutorError",
    "Gate",
    "ModelError",
    "ModelOutput",
    "MonotonicClock",
    "PluginError",
    "Request",
    "RequestOutput",
    "RequestRefusedError",
    "RequestStatus",
    "RequestView",
    "SamplingParams",
    "Scheduler",
    "SchedulerOutput",
    "SchedulingPolicy",
    "StepError",
    "StepOutputs",
    "StepView",
    "VirtualClock",
    "__version__",
    "hookimpl",
]

__version__ = VERSION
