"""The names that an author of plugins imports.

::

    from batchwright.plugin import ADMIT, Gate, Stop, hookimpl, option

Contracts of all kinds, verdicts, views, messages, and what options and hooks are declared
with. What is not here is private, but for ``batchwright`` (drive a scheduler) and
``batchwright.testing`` (test a component).
"""

from batchwright import protocols
from batchwright.clock import Clock
from batchwright.context import Context, Sizes
from batchwright.exceptions import (
    BatchwrightError,
    ConfigError,
    ExecutorError,
    InvariantError,
    ModelError,
    PluginError,
    RequestRefusedError,
)
from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent
from batchwright.messages import (
    BlockCopy,
    ModelOutput,
    NewRequestData,
    SchedulerOutput,
    StepOutputs,
)
from batchwright.option import option
from batchwright.protocols import *  # noqa: F403 (the contracts, all of them)
from batchwright.protocols.attention import AttentionBatch, AttentionSpec, LayerCall
from batchwright.protocols.kv import NO_HIT, DetachCause
from batchwright.queues import GroupedQueue, KeyedQueue, Ticket, WaitingQueue, WindowQueue
from batchwright.request import CacheKey, Finish, Request, RequestStatus
from batchwright.request_view import RequestView
from batchwright.sampling_params import SamplingParams
from batchwright.scheduler import Step, StepScheduler
from batchwright.step_record import StepRecord
from batchwright.step_view import Running, StepView
from batchwright.verdicts import ADMIT, Admit, Defer, Preempt, Reject, Stop, Verdict, Wait

__all__ = [
    "ADMIT",
    "NO_HIT",
    "Admit",
    "AttentionBatch",
    "AttentionSpec",
    "BatchwrightError",
    "BlockCopy",
    "CacheKey",
    "Clock",
    "ConfigError",
    "Context",
    "Defer",
    "DetachCause",
    "ExecutorError",
    "Finish",
    "GroupedQueue",
    "InvariantError",
    "KeyedQueue",
    "LayerCall",
    "LazyComponent",
    "ModelError",
    "ModelOutput",
    "NewRequestData",
    "PluginError",
    "Preempt",
    "Reject",
    "Request",
    "RequestRefusedError",
    "RequestStatus",
    "RequestView",
    "Running",
    "SamplingParams",
    "SchedulerOutput",
    "Sizes",
    "Step",
    "StepOutputs",
    "StepRecord",
    "StepScheduler",
    "StepView",
    "Stop",
    "Ticket",
    "Verdict",
    "Wait",
    "WaitingQueue",
    "WindowQueue",
    "hookimpl",
    "option",
]
__all__ += protocols.__all__
