"""Shortest job first, with aging."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.exceptions import ConfigError


def test_the_smallest_prompt_is_next(policy_bench: Any) -> None:
    b = policy_bench("sjf", {"aging": 0}, max_num_seqs=1)
    for name, prompt in (("a", 30), ("b", 10), ("c", 20), ("d", 10)):
        b.add(name, prompt, 2)
    assert b.order() == ["b", "d", "c", "a"]


def test_a_second_of_waiting_is_worth_tokens(policy_bench: Any) -> None:
    """After 2 s at 10 tokens a second, 30 tokens are before 11 and after 9."""
    b = policy_bench("sjf", {"aging": 10.0}, max_num_seqs=1)
    b.add("running", 4, 9)
    b.step()
    b.add("a", 30, 1)
    b.scheduler.clock.advance(2.0)
    b.add("b", 11, 1)
    b.add("c", 9, 1)
    assert b.order() == ["running", "c", "a", "b"]


def test_aging_bounds_how_long_the_longest_waits(policy_bench: Any) -> None:
    """One short request a step: the long one is passed by those of (4096 - 16) / 40.8 s."""
    b = policy_bench("sjf", {"aging": 40.8}, max_num_seqs=1, budget=4096)
    b.add("long", 4096, 1)
    begun = b.begins("long", 1_000, lambda step: b.add(f"short{step}", 16, 1))
    # Short ones that arrive from 100 s on come behind it; at that time none else waits.
    assert begun == [101]


def test_without_aging_it_waits_for_ever(policy_bench: Any) -> None:
    b = policy_bench("sjf", {"aging": 0}, max_num_seqs=1, budget=4096)
    b.add("long", 4096, 1)
    assert b.begins("long", 1000, lambda step: b.add(f"short{step}", 16, 1)) == []


def test_equal_lengths_are_served_as_they_came(policy_bench: Any) -> None:
    b = policy_bench("sjf", max_num_seqs=1)
    names = [f"r{i}" for i in range(20)]
    for name in names:
        b.add(name, 16, 2)
        b.scheduler.clock.advance(0.5)
    assert b.order() == names


def test_a_preempted_request_keeps_its_place(policy_bench: Any) -> None:
    """B yields for want of blocks, and returns before those that aging places behind it."""
    b = policy_bench("sjf", {"aging": 100.0}, usable=6, block_size=4)
    b.add("A", 8, 12)
    b.add("B", 8, 12)
    preempted = next(step for step in range(20) if b.step() == {"A": 1})
    assert preempted == 5
    b.scheduler.clock.advance(1.0)
    b.add("C", 4, 2)  # 4 + 100 of its arrival, against 8 of B
    assert b.order() == ["A", "B", "C"]


def test_what_is_cached_does_not_count(policy_bench: Any) -> None:
    """40 tokens of which 32 are cached are smaller than 10."""
    b = policy_bench("sjf", {"size": "uncached", "aging": 0}, max_num_seqs=1)
    shared = b.tokens(32)
    b.add("first", shared + b.tokens(1), 1)
    b.drain()
    b.add("cold", 10, 1)
    b.add("warm", shared + b.tokens(8), 1)
    assert b.order() == ["warm", "cold"]


def test_what_becomes_cached_while_it_waits_is_seen(policy_bench: Any) -> None:
    """``first`` computes 32 tokens of ``warm``, of which 8 are left then."""
    b = policy_bench("sjf", {"size": "uncached", "aging": 0}, max_num_seqs=1)
    shared = b.tokens(32)
    b.add("first", [*shared, 1], 2)
    b.add("cold", 10, 1)
    b.add("warm", shared + b.tokens(8), 1)
    queue = b.scheduler.components.policy.queue
    assert [r.request_id for r in queue] == ["cold", "first", "warm"]
    b.step()
    assert [r.request_id for r in queue] == ["first", "warm"]
    b.steps(2)
    assert [r.request_id for r in queue] == ["warm"]
    assert queue.key_of(b.scheduler.requests["warm"].view) == (8,)


def test_predicted_outputs_count_as_tokens(policy_bench: Any) -> None:
    """By the caps: 10 + 5 before 5 + 11."""
    b = policy_bench("sjf", {"size": "predicted", "aging": 0}, max_num_seqs=1)
    b.add("short prompt", 5, 11)
    b.add("short answer", 10, 5)
    assert b.order() == ["short answer", "short prompt"]


def test_options_are_checked(policy_bench: Any) -> None:
    with pytest.raises(ConfigError, match=r"policy.sjf.aging: expected a number >= 0 and < i"):
        policy_bench("sjf", {"aging": -1.0})
    with pytest.raises(ConfigError, match=r"policy.sjf.size: expected one of 'prompt', 'uncached'"):
        policy_bench("sjf", {"size": "tokens"})
