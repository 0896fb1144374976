"""Treatments of the KV of a preempted request."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Preemption
from batchwright_plugins.preemption.recompute import Recompute


@hookimpl
def batchwright_register_preemption() -> list[type[Preemption]]:
    return [Recompute]
