"""Conformance classes: one a kind, to be derived in the tests of a plugin.

A whole test module::

    from batchwright.testing.conformance import PolicyConformance
    from my_policy import ShortestPrompt

    class TestShortestPrompt(PolicyConformance):
        component = ShortestPrompt
        options = {"aging": 2.0}

``pytest --batchwright my=./my_policy.py`` runs the same on a file without a test module.
It needs pytest.
"""

from typing import Any

from batchwright.testing.conformance.admission import (
    ControlConformance,
    GateConformance,
    LimitConformance,
    ResourceConformance,
)
from batchwright.testing.conformance.base import Conformance
from batchwright.testing.conformance.blocks import (
    EvictionConformance,
    HasherConformance,
    KVConformance,
)
from batchwright.testing.conformance.estimating import EstimatorConformance, WorkloadConformance
from batchwright.testing.conformance.execution import ExecutorConformance
from batchwright.testing.conformance.kernels import AttentionConformance
from batchwright.testing.conformance.policy import PolicyConformance
from batchwright.testing.conformance.scheduling import SchedulerConformance
from batchwright.testing.conformance.serving import ServingConformance
from batchwright.testing.conformance.watching import (
    CommandConformance,
    FeatureConformance,
    ObserverConformance,
)
from batchwright.testing.conformance.yielding import (
    PredictorConformance,
    PreemptionConformance,
    VictimConformance,
)

__all__ = [
    "CONFORMANCE",
    "AttentionConformance",
    "CommandConformance",
    "Conformance",
    "ControlConformance",
    "EstimatorConformance",
    "EvictionConformance",
    "ExecutorConformance",
    "FeatureConformance",
    "GateConformance",
    "HasherConformance",
    "KVConformance",
    "LimitConformance",
    "ObserverConformance",
    "PolicyConformance",
    "PredictorConformance",
    "PreemptionConformance",
    "ResourceConformance",
    "SchedulerConformance",
    "ServingConformance",
    "VictimConformance",
    "WorkloadConformance",
    "conformance_for",
]

_CLASSES: tuple[type[Conformance], ...] = (
    AttentionConformance,
    CommandConformance,
    ControlConformance,
    EstimatorConformance,
    EvictionConformance,
    ExecutorConformance,
    FeatureConformance,
    GateConformance,
    HasherConformance,
    KVConformance,
    LimitConformance,
    ObserverConformance,
    PolicyConformance,
    PredictorConformance,
    PreemptionConformance,
    ResourceConformance,
    SchedulerConformance,
    VictimConformance,
    WorkloadConformance,
)

CONFORMANCE = {cls.kind: cls for cls in _CLASSES}
"""The conformance class of each kind."""


def conformance_for(kind: str, component: type[Any], **attributes: Any) -> type[Conformance]:
    """Make the test class of a component.

    Args:
        kind: E.g. ``policy``.
        component: Its class.
        attributes: Attributes of the conformance class, e.g. ``options``.
    """
    name = f"Test{component.__name__}"
    return type(name, (CONFORMANCE[kind],), {"component": component, **attributes})
