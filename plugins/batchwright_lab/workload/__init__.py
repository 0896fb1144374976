"""Workloads of simulations: traces that are read, arrivals that are made."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_workload() -> list[Offer]:
    return [
        Offer("agents", "batchwright_lab.workload.agents:Agents"),
        Offer("azure", "batchwright_lab.workload.azure:Azure"),
        Offer("burstgpt", "batchwright_lab.workload.burstgpt:BurstGpt"),
        Offer("bursty", "batchwright_lab.workload.bursty:Bursty"),
        Offer("clients", "batchwright_lab.workload.agents:Clients"),
        Offer("constant", "batchwright_lab.workload.constant:Constant"),
        Offer("gamma", "batchwright_lab.workload.gamma:Gamma"),
        Offer("jsonl", "batchwright_lab.workload.jsonl:Jsonl"),
        Offer("mooncake", "batchwright_lab.workload.mooncake:Mooncake"),
        Offer("poisson", "batchwright_lab.workload.poisson:Poisson"),
        Offer("servegen", "batchwright_lab.workload.servegen:ServeGen"),
        Offer("sharegpt", "batchwright_lab.workload.sharegpt:ShareGpt"),
    ]
