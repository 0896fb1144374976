"""The names that an author of plugins imports.

::

    from batchwright.plugin import ADMIT, Gate, Stop, hookimpl, option

Contracts of all kinds, verdicts, views, messages, and what options and hooks are declared
with. What is not here is private, but for ``batchwright`` (drive a scheduler) and
``batchwright.testing`` (test a component).
"""

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
from batchwright.messages import ModelOutput, SchedulerOutput, StepOutputs
from batchwright.option import option
from batchwright.protocols import (
    Arrival,
    AttentionBackend,
    Caps,
    Command,
    Component,
    Control,
    Estimator,
    Eviction,
    Executor,
    Feature,
    FeatureComponent,
    Gate,
    Hasher,
    KVManager,
    Lifecycle,
    Limit,
    ModelInfo,
    ModelSettings,
    Need,
    Observer,
    Predictor,
    Preemption,
    PrefixHit,
    Resource,
    SchedulerBase,
    SchedulingPolicy,
    StepShape,
    Subcomponent,
    Tokenizer,
    Victim,
    WorkerSide,
    Workload,
)
from batchwright.protocols.kv import NO_HIT
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
    "Arrival",
    "AttentionBackend",
    "BatchwrightError",
    "CacheKey",
    "Caps",
    "Clock",
    "Command",
    "Component",
    "ConfigError",
    "Context",
    "Control",
    "Defer",
    "Estimator",
    "Eviction",
    "Executor",
    "ExecutorError",
    "Feature",
    "FeatureComponent",
    "Finish",
    "Gate",
    "GroupedQueue",
    "Hasher",
    "InvariantError",
    "KVManager",
    "KeyedQueue",
    "LazyComponent",
    "Lifecycle",
    "Limit",
    "ModelError",
    "ModelInfo",
    "ModelOutput",
    "ModelSettings",
    "Need",
    "Observer",
    "PluginError",
    "Predictor",
    "Preempt",
    "Preemption",
    "PrefixHit",
    "Reject",
    "Request",
    "RequestRefusedError",
    "RequestStatus",
    "RequestView",
    "Resource",
    "Running",
    "SamplingParams",
    "SchedulerBase",
    "SchedulerOutput",
    "SchedulingPolicy",
    "Sizes",
    "Step",
    "StepOutputs",
    "StepRecord",
    "StepScheduler",
    "StepShape",
    "StepView",
    "Stop",
    "Subcomponent",
    "Ticket",
    "Tokenizer",
    "Verdict",
    "Victim",
    "Wait",
    "WaitingQueue",
    "WindowQueue",
    "WorkerSide",
    "Workload",
    "hookimpl",
    "option",
]
