"""Scheduling policies."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_policy() -> list[Offer]:
    return [
        Offer("dlpm", "batchwright_plugins.policy.dlpm:Dlpm"),
        Offer("edf", "batchwright_plugins.policy.edf:Edf"),
        Offer("fair", "batchwright_plugins.policy.fair:Fair"),
        Offer("fcfs", "batchwright_plugins.policy.fcfs:Fcfs"),
        Offer("lpm", "batchwright_plugins.policy.lpm:Lpm"),
        Offer("mlfq", "batchwright_plugins.policy.mlfq:Mlfq"),
        Offer("priority", "batchwright_plugins.policy.priority:Priority"),
        Offer("session", "batchwright_plugins.policy.session:Session"),
        Offer("sjf", "batchwright_plugins.policy.sjf:Sjf"),
        Offer("srpt", "batchwright_plugins.policy.srpt:Srpt"),
        Offer("window", "batchwright_plugins.policy.window:Window"),
    ]
