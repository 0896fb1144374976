"""The components of one scheduler, resolved to plain objects at start."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import astuple, frozen

from batchwright import protocols


@frozen(kw_only=True)
class Components:
    """Everything that is a choice, chosen; iterates in the order of set-up."""

    kv_parts: tuple[protocols.Component, ...] = ()
    kv: protocols.KVManager
    estimator: protocols.Estimator
    policy: protocols.SchedulingPolicy
    victim: protocols.Victim
    preemption: protocols.Preemption
    predictor: protocols.Predictor
    gates: tuple[protocols.Gate, ...] = ()
    controls: tuple[protocols.Control, ...] = ()
    limits: tuple[protocols.Limit, ...] = ()
    resources: tuple[protocols.Resource, ...] = ()
    features: tuple[protocols.Feature, ...] = ()
    observers: tuple[protocols.Observer, ...] = ()

    def __iter__(self) -> Iterator[protocols.Component]:
        for found in astuple(self, recurse=False):
            yield from found if isinstance(found, tuple) else (found,)

    def subcomponents(self) -> Iterator[protocols.Component]:
        """Components that were made for one of these, and are not among them."""
        return (c.ctx.components[name] for c in self for name in c.subcomponents)
