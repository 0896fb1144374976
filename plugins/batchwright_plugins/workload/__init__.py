"""Workloads of simulations: traces that are read, arrivals that are made."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Workload
from batchwright_plugins.workload.azure import Azure
from batchwright_plugins.workload.jsonl import Jsonl
from batchwright_plugins.workload.poisson import Poisson


@hookimpl
def batchwright_register_workload() -> list[type[Workload]]:
    return [Azure, Jsonl, Poisson]
