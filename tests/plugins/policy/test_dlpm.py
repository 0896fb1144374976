"""Longest prefix match within deficits."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.exceptions import ConfigError


def two_clients(b: Any) -> None:
    """a's requests share 32 tokens, b's none; 34 tokens each, one output."""
    shared = b.tokens(32)
    b.add("first", [*shared, 1], 1, client="c")
    b.drain()
    for i in range(4):
        b.add(f"b{i}", 34, 1, client="b")
        b.add(f"a{i}", shared + b.tokens(2), 1, client="a")


def test_a_large_quantum_is_longest_prefix_match(policy_bench: Any) -> None:
    b = policy_bench("dlpm", {"quantum": 10_000}, max_num_seqs=1)
    two_clients(b)
    assert b.order() == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"]


def test_a_small_quantum_is_fair(policy_bench: Any) -> None:
    """a computes 2 tokens a request and b 34: of b's are served as many as that allows."""
    b = policy_bench("dlpm", {"quantum": 1}, max_num_seqs=1)
    two_clients(b)
    # Both begin at c's 33 quanta. a 35, 37, ... are behind b's 33, and before b's 67.
    assert b.order() == ["a0", "b0", "a1", "a2", "a3", "b1", "b2", "b3"]


def test_who_has_used_up_its_quantum_waits_for_the_others(policy_bench: Any) -> None:
    """Quanta of 40: both stand at 33, in quantum 0; a at 41 after four, which is quantum 1."""
    b = policy_bench("dlpm", {"quantum": 40}, max_num_seqs=1)
    two_clients(b)
    shared = b.tokens(0)
    assert shared == []
    assert b.order() == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"]
    c = policy_bench("dlpm", {"quantum": 37}, max_num_seqs=1)
    two_clients(c)
    # a: 33, 35, 37: after two it waits for b's first, after which b stands at 67.
    assert c.order() == ["a0", "a1", "b0", "a2", "a3", "b1", "b2", "b3"]


def test_within_a_client_the_longest_hit_is_first(policy_bench: Any) -> None:
    b = policy_bench("dlpm", max_num_seqs=1)
    shared = b.tokens(32)
    b.add("x0", shared + b.tokens(2), 2, client="x")
    b.add("x1", 20, 1, client="x")
    b.add("x2", shared + b.tokens(3), 1, client="x")
    assert b.order() == ["x0", "x2", "x1"]


def test_who_was_away_has_saved_nothing(policy_bench: Any) -> None:
    """As in ``fair``: b comes back at a's level."""
    b = policy_bench("dlpm", {"quantum": 1}, max_num_seqs=1)
    b.add("b0", 4, 1, client="b")
    for i in range(20):
        b.add(f"a{i}", 10, 1, client="a")
    b.steps(11)
    for i in range(1, 4):
        b.add(f"b{i}", 10, 1, client="b")
    assert b.order()[:6] == ["a10", "b1", "a11", "b2", "a12", "b3"]


def test_weights_are_checked(policy_bench: Any) -> None:
    with pytest.raises(ConfigError, match=r"policy.dlpm.weights: expected weights > 0, got 0.0"):
        policy_bench("dlpm", {"weights": {"a": 0.0}})
    with pytest.raises(ConfigError, match=r"policy.dlpm.quantum: expected a number > 0, got 0"):
        policy_bench("dlpm", {"quantum": 0})
