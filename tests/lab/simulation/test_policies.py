"""Under every policy that ships, leaping writes the table that stepping writes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from batchwright.plugin_manager import PluginManager

from .cases import COEFFICIENTS, random_arrivals

POLICIES = [found.name for found in PluginManager.discover().registrations("policy")]
CONFIG = {
    "model": {"max_model_len": 200},
    "scheduler": {"max_num_seqs": 6, "max_num_batched_tokens": 64, "predictor": "class-average"},
    "kv": {"num_blocks": 40, "block_size": 8},
    "estimator": {"linear": COEFFICIENTS},
}


@pytest.mark.parametrize("policy", POLICIES)
def test_leaping_changes_no_request(policy: str, simulate: Any) -> None:
    arrivals = list(random_arrivals(random.Random(policy), 60))
    scheduler = {**CONFIG["scheduler"], "policy": policy}
    leapt, stepped = (
        simulate(arrivals, {**CONFIG, "scheduler": scheduler}, leap=leap).read("requests.csv")
        for leap in (True, False)
    )
    assert leapt == stepped
    assert len(leapt.splitlines()) == 61
