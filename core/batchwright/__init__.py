"""Batchwright: a plugin framework for scheduling LLM inference.

What is exported here is the stable interface; components are written against
``batchwright.protocols`` and tested with ``batchwright.testing``.
"""

from batchwright.clock import Clock, MonotonicClock, VirtualClock
from batchwright.engine import Engine
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
from batchwright.messages import (
    CachedRequestData,
    ModelOutput,
    NewRequestData,
    RequestOutput,
    SchedulerOutput,
    StepOutputs,
)
from batchwright.protocols import (
    AttentionBackend,
    Command,
    Control,
    Executor,
    Gate,
    KVManager,
    Limit,
    Observer,
    Preemption,
    Resource,
    SchedulingPolicy,
    Victim,
)
from batchwright.request import Request, RequestStatus
from batchwright.request_view import RequestView
from batchwright.sampling_params import SamplingParams
from batchwright.scheduler import Scheduler
from batchwright.version import VERSION

__all__ = [
    "AttentionBackend",
    "BatchwrightError",
    "CachedRequestData",
    "Clock",
    "Command",
    "ConfigError",
    "Control",
    "Engine",
    "Executor",
    "ExecutorError",
    "Gate",
    "KVManager",
    "Limit",
    "ModelError",
    "ModelOutput",
    "MonotonicClock",
    "NewRequestData",
    "Observer",
    "PluginError",
    "Preemption",
    "Request",
    "RequestOutput",
    "RequestRefusedError",
    "RequestStatus",
    "RequestView",
    "Resource",
    "SamplingParams",
    "Scheduler",
    "SchedulerOutput",
    "SchedulingPolicy",
    "StepError",
    "StepOutputs",
    "Victim",
    "VirtualClock",
    "__version__",
    "hookimpl",
]

__version__ = VERSION
