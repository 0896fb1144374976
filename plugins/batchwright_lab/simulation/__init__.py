"""Simulations: the same scheduler, steps that take the time an estimator says."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_executor() -> list[LazyComponent]:
    return [LazyComponent("simulated", "batchwright_lab.simulation.simulated:Simulated")]
