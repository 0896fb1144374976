"""Simulations: the same scheduler, steps that take the time an estimator says."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_executor() -> list[Offer]:
    return [Offer("simulated", "batchwright_lab.simulation.simulated:Simulated")]
