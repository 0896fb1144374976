"""Workloads of simulations: traces that are read, arrivals that are made."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Workload
from batchwright_plugins.workload.agents import Agents, Clients
from batchwright_plugins.workload.azure import Azure
from batchwright_plugins.workload.burstgpt import BurstGpt
from batchwright_plugins.workload.bursty import Bursty
from batchwright_plugins.workload.constant import Constant
from batchwright_plugins.workload.gamma import Gamma
from batchwright_plugins.workload.jsonl import Jsonl
from batchwright_plugins.workload.mooncake import Mooncake
from batchwright_plugins.workload.poisson import Poisson
from batchwright_plugins.workload.servegen import ServeGen
from batchwright_plugins.workload.sharegpt import ShareGpt


@hookimpl
def batchwright_register_workload() -> list[type[Workload]]:
    return [
        Agents,
        Azure,
        BurstGpt,
        Bursty,
        Clients,
        Constant,
        Gamma,
        Jsonl,
        Mooncake,
        Poisson,
        ServeGen,
        ShareGpt,
    ]
