"""Seats, and blocks, that a strictly more urgent request takes."""

from __future__ import annotations

from typing import Any


def test_off_an_urgent_request_waits_for_a_seat(policy_bench: Any) -> None:
    b = policy_bench("priority", max_num_seqs=1)
    b.add("low", 4, 5, priority=5)
    b.steps(2)
    b.add("high", 4, 2, priority=0)
    assert b.steps(3) == [{"low": 1}] * 3
    assert b.steps(2) == [{"high": 4}, {"high": 1}]


def test_off_no_request_is_asked_about(policy_bench: Any) -> None:
    """Not even the victim: today's decisions at today's cost."""
    b = policy_bench("priority", max_num_seqs=1)
    calls = []
    b.scheduler.components.victim.choose = lambda *arguments: calls.append(arguments)
    b.add("low", 4, 5, priority=5)
    b.add("high", 4, 2, priority=0)
    b.drain()
    assert calls == []


def test_an_urgent_request_takes_the_seat_of_the_least_urgent(policy_bench: Any) -> None:
    b = policy_bench("priority", {"preempts": True}, max_num_seqs=2)
    low = b.add("low", 4, 9, priority=5)
    b.add("middle", 4, 9, priority=3)
    b.steps(2)
    b.add("high", 4, 2, priority=0)
    assert b.steps(2) == [{"middle": 1, "high": 4}, {"middle": 1, "high": 1}]
    assert b.step() == {"middle": 1, "low": 1}
    assert (low.num_policy_preemptions, low.num_recomputed_tokens) == (1, 0)
    b.drain()


def test_equals_do_not_displace(policy_bench: Any) -> None:
    b = policy_bench("priority", {"preempts": True}, max_num_seqs=1)
    b.add("a", 4, 5, priority=1)
    b.step()
    b.add("b", 4, 2, priority=1)
    assert b.steps(4) == [{"a": 1}] * 4


def test_an_urgent_request_takes_blocks(policy_bench: Any) -> None:
    """3 blocks of 4, of which low holds 2: it gives them up."""
    b = policy_bench("priority", {"preempts": True}, usable=3, block_size=4)
    low = b.add("low", 7, 4, priority=5)
    b.step()
    b.add("high", 8, 2, priority=0)
    assert b.step() == {"high": 8}  # what low had been granted in this step is taken back
    assert (low.num_policy_preemptions, low.num_preemptions) == (1, 1)
    b.drain()


def test_after_some_displacements_a_request_is_immune(policy_bench: Any) -> None:
    b = policy_bench("priority", {"preempts": True}, max_num_seqs=1, max_policy_preemptions=2)
    low = b.add("low", 4, 30, priority=5)
    b.step()
    for i in range(5):
        b.add(f"high{i}", 4, 1, priority=0)
        b.steps(3)
    assert low.num_policy_preemptions == 2
    b.drain()


def test_another_yields_where_the_least_urgent_is_immune(policy_bench: Any) -> None:
    """Of two that are less urgent, first the one, then the other; then none is left."""
    b = policy_bench("priority", {"preempts": True}, max_num_seqs=2, max_policy_preemptions=1)
    requests = [b.add("lowest", 4, 30, priority=5), b.add("low", 4, 30, priority=4)]
    b.step()
    for i in range(3):
        b.add(f"high{i}", 4, 1, priority=0)
        b.steps(3)
    assert [request.num_policy_preemptions for request in requests] == [1, 1]
    b.drain()


def test_while_nothing_changes_the_victim_is_asked_once(policy_bench: Any) -> None:
    b = policy_bench("priority", {"preempts": True}, max_num_seqs=1)
    victim = b.scheduler.components.victim
    choose, calls = victim.choose, []
    victim.choose = lambda *arguments: calls.append(arguments) or choose(*arguments)
    b.add("urgent", 4, 50, priority=0)
    b.step()
    b.add("waits", 4, 5, priority=1)
    b.steps(20)
    assert len(calls) == 1
