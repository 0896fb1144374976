"""Scheduling policies."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_policy() -> list[LazyComponent]:
    return [
        LazyComponent("dlpm", "batchwright_plugins.policy.dlpm:Dlpm"),
        LazyComponent("edf", "batchwright_plugins.policy.edf:Edf"),
        LazyComponent("fair", "batchwright_plugins.policy.fair:Fair"),
        LazyComponent("fcfs", "batchwright_plugins.policy.fcfs:Fcfs"),
        LazyComponent("lpm", "batchwright_plugins.policy.lpm:Lpm"),
        LazyComponent("mlfq", "batchwright_plugins.policy.mlfq:Mlfq"),
        LazyComponent("priority", "batchwright_plugins.policy.priority:Priority"),
        LazyComponent("session", "batchwright_plugins.policy.session:Session"),
        LazyComponent("sjf", "batchwright_plugins.policy.sjf:Sjf"),
        LazyComponent("srpt", "batchwright_plugins.policy.srpt:Srpt"),
        LazyComponent("window", "batchwright_plugins.policy.window:Window"),
    ]
