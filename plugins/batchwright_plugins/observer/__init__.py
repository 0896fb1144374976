"""Observers."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Observer
from batchwright_plugins.observer.decision_log import DecisionLog
from batchwright_plugins.observer.invariants import Invariants
from batchwright_plugins.observer.progress import Progress
from batchwright_plugins.observer.request_table import RequestTable
from batchwright_plugins.observer.shadow import Shadow
from batchwright_plugins.observer.stats import Stats


@hookimpl
def batchwright_register_observer() -> list[type[Observer]]:
    return [DecisionLog, Invariants, Progress, RequestTable, Shadow, Stats]
