"""Hits of waiting requests are known without looking at all of them."""

from __future__ import annotations

import random
from typing import Any

import pytest


@pytest.mark.parametrize("seed", range(4))
def test_known_hits_are_what_a_look_would_find(policy_bench: Any, seed: int) -> None:
    """Prompts of a tree of prefixes, computed in one step each; nothing is evicted."""
    chance = random.Random(seed)
    b = policy_bench("lpm", max_num_seqs=2, block_size=4, usable=3000)
    policy = b.scheduler.components.policy
    for number in range(60):
        path = [chance.randrange(2) for _ in range(chance.randrange(6))]
        shared = [token for depth, branch in enumerate(path) for token in [depth, branch, 9, 9]]
        b.add(f"r{number}", [*shared, 100 + number, *[1] * chance.randrange(9)], 1)
        if chance.random() < 0.4:
            b.step()
        for request in policy.queue:
            assert policy.watch.hit(request) == policy.ctx.prefix_hit(request)
    b.drain()
    assert policy.watch._listed == {}


def test_few_are_woken_at_a_time_and_those_that_waited_longest(policy_bench: Any) -> None:
    """100 share a prefix; the first to compute it wakes 64, one of which wakes the others."""
    b = policy_bench("lpm", max_num_seqs=1)
    shared = b.tokens(16)
    b.add("first", [*shared, 0], 1)
    for number in range(100):
        b.add(f"r{number}", [*shared, 1 + number], 1)
    policy = b.scheduler.components.policy
    b.step()
    known = [request.request_id for request in policy.queue if policy.watch.hit(request)]
    assert known == [f"r{number}" for number in range(64)]
    b.step()
    assert sum(policy.watch.hit(request) > 0 for request in policy.queue) == 99
    assert b.order()[:3] == ["r1", "r2", "r3"]
