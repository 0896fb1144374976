"""Observers."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_observer() -> list[LazyComponent]:
    return [
        LazyComponent("decision-log", "batchwright_plugins.observer.decision_log:DecisionLog"),
        LazyComponent("invariants", "batchwright_plugins.observer.invariants:Invariants"),
        LazyComponent("progress", "batchwright_plugins.observer.progress:Progress"),
        LazyComponent("request-table", "batchwright_plugins.observer.request_table:RequestTable"),
        LazyComponent("shadow", "batchwright_plugins.observer.shadow:Shadow"),
        LazyComponent("stats", "batchwright_plugins.observer.stats:Stats"),
    ]
