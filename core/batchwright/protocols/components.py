"""The components of one scheduler, resolved to plain objects at start."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import astuple, frozen

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
    """Everything that is a choice, chosen; iterates in the order of set-up."""

    kv_parts: tuple[Component, ...] = ()
    kv: KVManager
    estimator: Estimator
    policy: SchedulingPolicy
    victim: Victim
    preemption: Preemption
    predictor: Predictor
    gates: tuple[Gate, ...] = ()
    controls: tuple[Control, ...] = ()
    limits: tuple[Limit, ...] = ()
    resources: tuple[Resource, ...] = ()
    features: tuple[Feature, ...] = ()
    observers: tuple[Observer, ...] = ()

    def __iter__(self) -> Iterator[Component]:
        for found in astuple(self, recurse=False):
            yield from found if isinstance(found, tuple) else (found,)

    def subcomponents(self) -> Iterator[Component]:
        """Components that were made for one of these, and are not among them."""
        return (c.ctx.components[name] for c in self for name in c.subcomponents)
