"""Workloads of simulations: traces that are read, arrivals that are made."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_workload() -> list[LazyComponent]:
    return [
        LazyComponent("agents", "batchwright_lab.workload.agents:Agents"),
        LazyComponent("azure", "batchwright_lab.workload.azure:Azure"),
        LazyComponent("burstgpt", "batchwright_lab.workload.burstgpt:BurstGpt"),
        LazyComponent("bursty", "batchwright_lab.workload.bursty:Bursty"),
        LazyComponent("clients", "batchwright_lab.workload.agents:Clients"),
        LazyComponent("constant", "batchwright_lab.workload.constant:Constant"),
        LazyComponent("gamma", "batchwright_lab.workload.gamma:Gamma"),
        LazyComponent("jsonl", "batchwright_lab.workload.jsonl:Jsonl"),
        LazyComponent("mooncake", "batchwright_lab.workload.mooncake:Mooncake"),
        LazyComponent("poisson", "batchwright_lab.workload.poisson:Poisson"),
        LazyComponent("servegen", "batchwright_lab.workload.servegen:ServeGen"),
        LazyComponent("sharegpt", "batchwright_lab.workload.sharegpt:ShareGpt"),
    ]
