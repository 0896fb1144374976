"""Scheduling policies."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import SchedulingPolicy
from batchwright_plugins.policy.dlpm import Dlpm
from batchwright_plugins.policy.edf import Edf
from batchwright_plugins.policy.fair import Fair
from batchwright_plugins.policy.fcfs import Fcfs
from batchwright_plugins.policy.lpm import Lpm
from batchwright_plugins.policy.mlfq import Mlfq
from batchwright_plugins.policy.priority import Priority
from batchwright_plugins.policy.session import Session
from batchwright_plugins.policy.sjf import Sjf
from batchwright_plugins.policy.srpt import Srpt
from batchwright_plugins.policy.window import Window


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    return [Dlpm, Edf, Fair, Fcfs, Lpm, Mlfq, Priority, Session, Sjf, Srpt, Window]
