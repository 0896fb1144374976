"""Under every policy that ships, fast-forwarding writes the table that stepping writes."""

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
def test_fast_forwarding_changes_no_request(policy: str, simulate: Any) -> None:
    arrivals = list(random_arrivals(random.Random(policy), 60))
    scheduler = {**CONFIG["scheduler"], "policy": policy}
    forwarded, stepped = (
        simulate(arrivals, {**CONFIG, "scheduler": scheduler}, fast_forward=fast_forward).read(
            "requests.csv"
        )
        for fast_forward in (True, False)
    )
    assert forwarded == stepped
    assert len(forwarded.splitlines()) == 61
