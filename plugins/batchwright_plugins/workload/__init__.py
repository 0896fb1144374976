"""Workloads of simulations: traces that are read, arrivals that are made."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_workload() -> list[Offer]:
    return [
        Offer("agents", "batchwright_plugins.workload.agents:Agents"),
        Offer("azure", "batchwright_plugins.workload.azure:Azure"),
        Offer("burstgpt", "batchwright_plugins.workload.burstgpt:BurstGpt"),
        Offer("bursty", "batchwright_plugins.workload.bursty:Bursty"),
        Offer("clients", "batchwright_plugins.workload.agents:Clients"),
        Offer("constant", "batchwright_plugins.workload.constant:Constant"),
        Offer("gamma", "batchwright_plugins.workload.gamma:Gamma"),
        Offer("jsonl", "batchwright_plugins.workload.jsonl:Jsonl"),
        Offer("mooncake", "batchwright_plugins.workload.mooncake:Mooncake"),
        Offer("poisson", "batchwright_plugins.workload.poisson:Poisson"),
        Offer("servegen", "batchwright_plugins.workload.servegen:ServeGen"),
        Offer("sharegpt", "batchwright_plugins.workload.sharegpt:ShareGpt"),
    ]
