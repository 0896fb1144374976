"""Estimators of step times."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_estimator() -> list[Offer]:
    return [
        Offer("linear", "batchwright_plugins.estimator.linear:Linear"),
        Offer("measured", "batchwright_plugins.estimator.measured:Measured"),
        Offer("table", "batchwright_plugins.estimator.table:Table"),
    ]
