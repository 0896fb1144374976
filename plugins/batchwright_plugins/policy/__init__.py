"""Scheduling policies."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import SchedulingPolicy
from batchwright_plugins.policy.fcfs import Fcfs
from batchwright_plugins.policy.priority import Priority


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    return [Fcfs, Priority]
