"""Estimators of step times."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_estimator() -> list[LazyComponent]:
    return [
        LazyComponent("linear", "batchwright_lab.estimator.linear:Linear"),
        LazyComponent("measured", "batchwright_lab.estimator.measured:Measured"),
        LazyComponent("table", "batchwright_lab.estimator.table:Table"),
    ]
