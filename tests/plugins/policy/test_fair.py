"""Fair queueing of tokens over accounts whose usage the core counts."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.exceptions import ConfigError


def test_the_client_with_the_least_service_is_next(policy_bench: Any) -> None:
    """Prompt tokens count 1, output tokens 2 (but for the first, which its prompt pays)."""
    b = policy_bench("fair", max_num_seqs=1)
    for i in range(3):
        b.add(f"a{i}", 10, 3, client="a")
    for i in range(3):
        b.add(f"b{i}", 4, 2, client="b")
    order = b.order()
    # a0: a 14; b0, b1: b 12; both behind that are a 14, b 12: b2 (18), then a1 (28), a2.
    assert order == ["a0", "b0", "b1", "b2", "a1", "a2"]


def test_service_is_read_when_it_counts(policy_bench: Any) -> None:
    """The cost of decodes without admissions is seen at the next admission."""
    b = policy_bench("fair", max_num_seqs=3)
    b.add("a0", 4, 40, client="a")
    b.add("a1", 4, 40, client="a")
    b.add("b0", 12, 10, client="b")
    b.step()
    b.add("a2", 4, 2, client="a")  # a stands at 8, b at 12: a would be next
    b.add("b1", 4, 2, client="b")
    for _ in range(9):
        assert b.step() == {"a0": 1, "a1": 1, "b0": 1}
    # There was no call, but a stands at 8 + 2 * 18 = 44 now, b at 12 + 2 * 9 = 30.
    assert b.step() == {"a0": 1, "a1": 1, "b1": 4}
    b.drain()


def test_who_was_away_has_saved_nothing(policy_bench: Any) -> None:
    b = policy_bench("fair", max_num_seqs=1)
    b.add("b0", 4, 1, client="b")
    for i in range(20):
        b.add(f"a{i}", 10, 1, client="a")
    b.steps(11)  # b had 4, a has had 100; then b comes back
    for i in range(1, 4):
        b.add(f"b{i}", 10, 1, client="b")
    assert b.order()[:6] == ["a10", "b1", "a11", "b2", "a12", "b3"]


def test_two_backlogged_clients_are_never_far_apart(policy_bench: Any) -> None:
    """The bound of the paper (Theorem 4.4): 2 max(input weight * L, output weight * M).

    L is the longest prompt, M the tokens that a batch can hold.
    """
    b = policy_bench("fair", max_num_seqs=4, budget=64, block_size=4, usable=100)
    policy = b.scheduler.components.policy
    for i in range(60):
        b.add(f"a{i}", 30, 8, client="a")
        b.add(f"b{i}", 3, 40, client="b")
    bound = 2 * max(1.0 * 30, 2.0 * 4 * 43)
    apart = []
    while {"a", "b"} <= {r.client for r in b.scheduler.requests.values() if r.status < 2}:
        b.step()
        apart.append(abs(policy.counters["a"] - policy.counters["b"]))
    assert len(apart) > 100
    assert max(apart) <= bound
    assert min(policy.counters["a"], policy.counters["b"]) > 3 * bound  # it was long enough


def test_weights_are_shares(policy_bench: Any) -> None:
    """a may have twice as much as b."""
    b = policy_bench("fair", {"weights": {"a": 2.0}}, max_num_seqs=1)
    for i in range(6):
        b.add(f"a{i}", 10, 1, client="a")
        b.add(f"b{i}", 10, 1, client="b")
    # a: 5, 10, 15, ...; b: 10, 20, 30: where they are even a was there first.
    assert b.order()[:9] == ["a0", "b0", "a1", "a2", "b1", "a3", "a4", "b2", "a5"]


def test_a_client_that_comes_back_to_an_empty_queue_is_lifted_to_the_last(
    policy_bench: Any,
) -> None:
    """a alone had 40 tokens while b was away, and has nothing waiting when b comes."""
    b = policy_bench("fair", max_num_seqs=1)
    b.add("a0", 40, 1, client="a")
    b.step()
    b.add("b0", 10, 1, client="b")
    b.add("a1", 10, 1, client="a")
    counters = b.scheduler.components.policy.counters
    assert (counters["a"], counters["b"]) == (40.0, 40.0)


def test_weights_are_checked(policy_bench: Any) -> None:
    with pytest.raises(ConfigError, match=r"policy.fair.weights: expected weights > 0, got -1.0"):
        policy_bench("fair", {"weights": {"a": -1.0}})


def test_each_admission_of_a_step_knows_of_those_before_it(policy_bench: Any) -> None:
    """Seats are dealt in turns, though all of them are free in one step."""
    b = policy_bench("fair", max_num_seqs=6)
    for client in "ab":
        for i in range(6):
            b.add(f"{client}{i}", 10, 3, client=client)
    assert list(b.step()) == ["a0", "b0", "a1", "b1", "a2", "b2"]
    b.drain()


def test_the_bound_holds_when_outputs_are_free(policy_bench: Any) -> None:
    """Theorem 4.4 with an output weight of 0: twice the longest prompt."""
    b = policy_bench("fair", {"output_weight": 0.0}, max_num_seqs=16, usable=200)
    policy = b.scheduler.components.policy
    for i in range(60):
        b.add(f"a{i}", 10, 8, client="a")
        b.add(f"b{i}", 7, 9, client="b")
    while {"a", "b"} <= {r.client for r in b.scheduler.requests.values() if r.status < 2}:
        b.step()
        assert abs(policy.counters["a"] - policy.counters["b"]) <= 2 * 10
    assert policy.counters["a"] > 400


def test_a_prompt_is_charged_once_whatever_becomes_of_it(policy_bench: Any) -> None:
    """Two requests outgrow six blocks: one is computed again, at no charge."""
    b = policy_bench("fair", {"output_weight": 0.0}, usable=6, block_size=4)
    requests = [b.add(name, 8, 12, client=name) for name in "ab"]
    b.drain()
    assert [request.num_preemptions for request in requests] == [0, 1]
    counters = b.scheduler.components.policy.counters
    assert (counters["a"], counters["b"]) == (8.0, 8.0)
