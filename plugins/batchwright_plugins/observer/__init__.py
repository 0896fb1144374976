"""Observers."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_observer() -> list[Offer]:
    return [
        Offer("decision-log", "batchwright_plugins.observer.decision_log:DecisionLog"),
        Offer("invariants", "batchwright_plugins.observer.invariants:Invariants"),
        Offer("progress", "batchwright_plugins.observer.progress:Progress"),
        Offer("request-table", "batchwright_plugins.observer.request_table:RequestTable"),
        Offer("shadow", "batchwright_plugins.observer.shadow:Shadow"),
        Offer("stats", "batchwright_plugins.observer.stats:Stats"),
    ]
