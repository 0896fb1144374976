"""The benchmark of simulations runs; how fast it is, people look at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import simulation_speed


@pytest.mark.parametrize("fast_forward", ["true", "false"])
def test_made_load_is_carried(fast_forward: str) -> None:
    """Nearly every decode costs no visit, fast-forwarding or not."""
    found = simulation_speed.run(
        "poisson",
        *simulation_speed.LIKE_AZURE,
        "workload.poisson.num_requests=60",
        "kv.enable_prefix_caching=false",
        f"simulation.fast_forward={fast_forward}",
    )
    assert found.num_requests == 60
    assert found.summary["decode_batch_ratio"] >= 0.95
    assert found.summary["finished_stop"] == 60
    assert found.cpu > 0
