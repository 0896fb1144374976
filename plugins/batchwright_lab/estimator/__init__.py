"""Estimators of step times."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_estimator() -> list[Offer]:
    return [
        Offer("linear", "batchwright_lab.estimator.linear:Linear"),
        Offer("measured", "batchwright_lab.estimator.measured:Measured"),
        Offer("table", "batchwright_lab.estimator.table:Table"),
    ]
