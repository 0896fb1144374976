"""The components of one scheduler, resolved to plain objects at start."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from batchwright.protocols.component import Component
from batchwright.protocols.control import Control
from batchwright.protocols.estimator import Estimator
from batchwright.protocols.feature import Feature
from batchwright.protocols.gate import Gate
from batchwright.protocols.kv import KVManager
from batchwright.protocols.limit import Limit
from batchwright.protocols.observer import Observer
from batchwright.protocols.policy import SchedulingPolicy
from batchwright.protocols.predictor import Predictor
from batchwright.protocols.preemption import Preemption
from batchwright.protocols.resource import Resource
from batchwright.protocols.victim import Victim


@frozen(kw_only=True)
class Components:
    """Everything that is a choice, chosen."""

    policy: SchedulingPolicy
    victim: Victim
    preemption: Preemption
    predictor: Predictor
    estimator: Estimator
    kv: KVManager
    gates: tuple[Gate, ...] = ()
    controls: tuple[Control, ...] = ()
    limits: tuple[Limit, ...] = ()
    resources: tuple[Resource, ...] = ()
    features: tuple[Feature, ...] = ()
    observers: tuple[Observer, ...] = ()
    kv_parts: tuple[Component, ...] = field(default=())

    def __iter__(self) -> Iterator[Component]:
        yield from self.kv_parts
        yield self.kv
        yield self.estimator
        yield self.policy
        yield self.victim
        yield self.preemption
        yield self.predictor
        yield from self.gates
        yield from self.controls
        yield from self.limits
        yield from self.resources
        yield from self.features
        yield from self.observers

    def subcomponents(self) -> Iterator[Component]:
        """Components that were made for one of these, and are not among them."""
        return (c.ctx.components[name] for c in self for name in c.subcomponents)
