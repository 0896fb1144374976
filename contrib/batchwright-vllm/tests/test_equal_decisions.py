"""fcfs and priority through Batchwright decide what stock vLLM decides."""

from __future__ import annotations

import pytest
from batchwright_vllm.scheduler import SyncScheduler

from differential.peer import Peer
from differential.play import play
from differential.workloads import FAMILIES, make

SEEDS = range(21)
"""With each family of workloads: more than 500."""


@pytest.mark.parametrize("family", FAMILIES)
def test_decisions_are_those_of_stock_vllm(family: str) -> None:
    """Grants, blocks, preemptions and ends of every step."""
    for seed in SEEDS:
        workload = make(family, seed)
        stock = play(workload, Peer(workload.setup))
        assert play(workload, Peer(workload.setup, SyncScheduler)) == stock, (family, seed)


def test_there_are_enough_workloads() -> None:
    assert len(SEEDS) * len(FAMILIES) >= 500
