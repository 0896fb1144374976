"""Short work first: sooner on average, bounded for the longest by aging and by waiting."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

SMALL = {"max_num_seqs": 32, "max_num_batched_tokens": 1024}
LOAD = 10.0
"""Requests a second; about 6.5 are served."""


@pytest.fixture
def run(simulate: Any, mixed: Any) -> Any:
    def make(policy: str, **options: Any) -> Any:
        sections = {"policy": {policy: options}}
        return simulate(
            mixed(400, LOAD), policy=policy, predictor="oracle", sections=sections, **SMALL
        )

    return make


def test_sjf_has_less_mean_ttft_than_fcfs_and_aging_bounds_its_worst(run: Any) -> None:
    fcfs, blind, aged = run("fcfs"), run("sjf", aging=0), run("sjf", aging=300.0)
    assert mean(blind.ttfts()) < 0.7 * mean(fcfs.ttfts())
    assert mean(blind.ttfts()) < mean(aged.ttfts()) < mean(fcfs.ttfts())
    # Measured: 14.6 s for fcfs; the price of shortest first falls on the longest.
    assert fcfs.ttfts()[-1] < aged.ttfts()[-1] < blind.ttfts()[-1]


@pytest.mark.parametrize("policy", ["srpt", "mlfq"])
def test_mlfq_and_srpt_cut_mean_e2e_of_short_requests(run: Any, policy: str) -> None:
    def short(result: Any) -> float:
        few = [r for r in result.requests if r.num_prompt_tokens < 400 > 8 * r.num_output_tokens]
        assert len(few) > 100
        return mean(r.finish_time - r.arrival_time for r in few)

    fcfs, better = run("fcfs"), run(policy)
    assert short(better) < 0.5 * short(fcfs)
    assert mean(better.e2es()) < mean(fcfs.e2es())


@pytest.mark.parametrize("policy", ["srpt", "mlfq"])
def test_waiting_bounds_bound_the_longest(run: Any, policy: str) -> None:
    """The bound is on a wait, not on the sum of all of them."""
    free, bounded = run(policy, max_wait=1e9), run(policy, max_wait=5.0)
    assert bounded.ttfts()[-1] < 0.7 * free.ttfts()[-1]
