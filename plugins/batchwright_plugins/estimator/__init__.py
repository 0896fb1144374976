"""Estimators of step times."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Estimator
from batchwright_plugins.estimator.linear import Linear
from batchwright_plugins.estimator.measured import Measured
from batchwright_plugins.estimator.table import Table


@hookimpl
def batchwright_register_estimator() -> list[type[Estimator]]:
    return [Linear, Measured, Table]
