"""The contracts of every kind of component: one module a kind."""

from batchwright.protocols.attention import AttentionBackend
from batchwright.protocols.command import Command
from batchwright.protocols.component import Component, Lifecycle, Subcomponent
from batchwright.protocols.control import Caps, Control
from batchwright.protocols.estimator import Estimator, StepShape
from batchwright.protocols.executor import Executor, OutputOracle
from batchwright.protocols.feature import Feature, FeatureComponent, WorkerSide
from batchwright.protocols.gate import Gate
from batchwright.protocols.kv import Eviction, Hasher, KVManager, Need, PrefixHit
from batchwright.protocols.limit import Limit
from batchwright.protocols.model import ModelInfo, ModelSettings, Tokenizer
from batchwright.protocols.observer import Observer
from batchwright.protocols.policy import SchedulingPolicy
from batchwright.protocols.predictor import Predictor
from batchwright.protocols.preemption import Preemption
from batchwright.protocols.resource import Resource
from batchwright.protocols.scheduler import SchedulerBase
from batchwright.protocols.victim import Victim
from batchwright.protocols.workload import Arrival, Workload

__all__ = [
    "Arrival",
    "AttentionBackend",
    "Caps",
    "Command",
    "Component",
    "Control",
    "Estimator",
    "Eviction",
    "Executor",
    "Feature",
    "FeatureComponent",
    "Gate",
    "Hasher",
    "KVManager",
    "Lifecycle",
    "Limit",
    "ModelInfo",
    "ModelSettings",
    "Need",
    "Observer",
    "OutputOracle",
    "Predictor",
    "Preemption",
    "PrefixHit",
    "Resource",
    "SchedulerBase",
    "SchedulingPolicy",
    "StepShape",
    "Subcomponent",
    "Tokenizer",
    "Victim",
    "WorkerSide",
    "Workload",
]
