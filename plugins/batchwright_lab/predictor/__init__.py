"""Predictors that know the true output lengths, for simulations."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_predictor() -> list[LazyComponent]:
    return [
        LazyComponent("noisy", "batchwright_lab.predictor.oracle:Noisy"),
        LazyComponent("oracle", "batchwright_lab.predictor.oracle:Oracle"),
    ]
