"""Requests do not take each other's blocks for ever, whatever is chosen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright import Scheduler, VirtualClock
from batchwright.testing import Driver, make_request

VICTIMS = ["cost-aware", "least-computed", "lifo", "lowest-priority", "most-blocks", "random"]
GATES: list[list[dict[str, Any]]] = [
    [],
    [{"use": "full-need"}],
    [{"use": "watermark", "fraction": 0.1}],
    [{"use": "watermark", "fraction": 0.1, "need": "step"}],
    [{"use": "peak-memory"}],
    [{"use": "queue-limit", "requests": 50}],
    [{"use": "queue-timeout", "seconds": 1e6}],
    [{"use": "quota", "tokens": 1_000_000}],
]
MOST = 3  # scheduler.max_futile_preemptions


def driver_of(victim: str, gates: Any, **options: Any) -> Driver:
    config = {
        "model": {"max_model_len": 60},
        "scheduler": {
            "victim": victim,
            "max_num_batched_tokens": 24,
            "compat": options.get("compat", "none"),
            "policy": options.get("policy", "fcfs"),
        },
        "kv": options.get("kv", {"block_size": 4, "num_blocks": 16}),
        "gate": gates,
        "limit": [{"use": "long-prefill", "threshold": options.get("threshold", 4)}],
    }
    return Driver(Scheduler.from_config(config, clock=VirtualClock()))


def most_futile(driver: Driver, *, max_steps: int = 3000) -> int:
    """Run to the end; the most preemptions of a request between two of its outputs."""
    most = 0
    for _ in range(max_steps):
        if not driver.scheduler.has_unfinished:
            driver.finish()
            return most
        driver.turn()
        most = max(most, *(request.num_futile_preemptions for request in driver.requests))
    raise AssertionError(f"not done: {driver.scheduler.running}")


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("compat", ["none", "vllm-0.32"])
def test_two_long_prompts_without_a_gate_end(victim: str, compat: str) -> None:
    """Each fills 12 of 15 blocks; under compat it takes longer to say that it never ends."""
    driver = driver_of(victim, [], compat=compat)
    driver.add(make_request("A", 48, 4), make_request("B", 48, 4))
    assert most_futile(driver) <= (MOST if compat == "none" else 100)


@pytest.mark.parametrize(
    ("victim", "a", "b"), [("most-blocks", (20, 7), (28, 1)), ("lowest-priority", (25, 5), (12, 8))]
)
def test_two_that_preempted_each_other_for_ever_end(victim: str, a: Any, b: Any) -> None:
    kv = {"block_size": 4, "num_blocks": 8, "enable_prefix_caching": False}
    driver = driver_of(victim, [], kv=kv, threshold=3)
    driver.add(make_request("A", *a), make_request("B", *b))
    assert most_futile(driver, max_steps=150) <= MOST + 1


@settings(max_examples=120, deadline=None)
@given(
    victim=st.sampled_from(VICTIMS),
    gates=st.sampled_from(GATES),
    policy=st.sampled_from(["fcfs", "priority"]),
    threshold=st.integers(1, 24),
    sizes=st.lists(
        st.tuples(st.integers(1, 54), st.integers(1, 20), st.integers(0, 2), st.integers(0, 3)),
        min_size=2,
        max_size=7,
    ),
)
def test_preemptions_between_two_outputs_are_bounded(
    victim: str, gates: Any, policy: str, threshold: int, sizes: list[tuple[int, ...]]
) -> None:
    """All end, and each is preempted at most a few times more than the others are many."""
    driver = driver_of(victim, gates, policy=policy, threshold=threshold)
    for i, (prompt, outputs, priority, turns) in enumerate(sizes):
        driver.add(make_request(f"r{i}", prompt, outputs, priority=priority))
        for _ in range(turns):
            driver.turn()
    assert most_futile(driver) <= MOST + len(sizes) - 1
