"""Predictors that know the true output lengths, for simulations."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_predictor() -> list[Offer]:
    return [
        Offer("noisy", "batchwright_lab.predictor.oracle:Noisy"),
        Offer("oracle", "batchwright_lab.predictor.oracle:Oracle"),
    ]
