"""Shortest remaining processing time, with pausing."""

from __future__ import annotations

from typing import Any


def test_longer_ones_pause_for_shorter_ones_and_go_on(policy_bench: Any) -> None:
    """Predicted by their caps: what is left counts, not what there was."""
    b = policy_bench("srpt", max_num_seqs=1)
    a = b.add("A", 4, 10)
    assert b.steps(2) == [{"A": 4}, {"A": 1}]
    b.add("B", 4, 3)
    assert b.steps(1) == [{"B": 4}]  # 8 left of A, 3 of B
    b.add("C", 4, 2)
    assert b.steps(2) == [{"B": 1}, {"B": 1}]  # 2 left of B, as of C: B stays
    assert b.steps(2) == [{"C": 4}, {"C": 1}]
    b.add("D", 4, 8)
    assert b.steps(2) == [{"A": 1}, {"A": 1}]  # 8 left of both: A was there first
    assert (a.num_recomputed_tokens, a.num_policy_preemptions) == (0, 1)
    b.drain()


def test_as_many_pause_as_wait_and_no_more(policy_bench: Any) -> None:
    b = policy_bench("srpt", max_num_seqs=4)
    for name, length in zip("ABCD", (20, 30, 40, 5), strict=True):
        b.add(name, 4, length)
    b.step()
    for name, length in zip("EFGH", (10, 10, 35, 50), strict=True):
        b.add(name, 4, length)
    # The two longest pause for the two shortest: C (39 left) for E, B (29) for F; 35 waits.
    assert b.step() == {"A": 1, "D": 1, "E": 4, "F": 4}
    b.drain()


def test_immune_ones_are_passed_over(policy_bench: Any) -> None:
    """An immune request stays; the longest of the others pauses."""
    b = policy_bench("srpt", max_num_seqs=2, max_policy_preemptions=1)
    b.add("A", 4, 50)
    b.add("B", 4, 40)
    b.step()
    b.add("C", 4, 2)
    assert b.steps(2) == [{"B": 1, "C": 4}, {"B": 1, "C": 1}]
    assert b.steps(1) == [{"B": 1, "A": 1}]
    b.add("D", 4, 2)
    assert b.steps(1) == [{"A": 1, "D": 4}]
    b.drain()


def test_requests_are_done_sooner_on_average(policy_bench: Any, make_bench: Any) -> None:
    def mean_end(b: Any) -> float:
        for i in range(24):
            b.add(f"r{i}", 4, 5 + 7 * i % 31)
            b.step()
        ends: dict[str, int] = {}
        while b.scheduler.has_unfinished:
            b.step()
            for name in b.finished:
                ends.setdefault(name, b.scheduler.view.step_id)
        return sum(ends.values()) / len(ends)

    seats = {"max_num_seqs": 2}
    assert mean_end(policy_bench("srpt", **seats)) < 0.85 * mean_end(make_bench(**seats))


def test_without_pausing_order_alone_counts(policy_bench: Any) -> None:
    b = policy_bench("srpt", {"pausing": False}, max_num_seqs=1)
    b.add("A", 4, 5)
    b.step()
    b.add("B", 4, 3)
    b.add("C", 4, 2)
    assert b.order() == ["A", "C", "B"]


def test_the_longest_is_next_after_a_bounded_wait(policy_bench: Any) -> None:
    b = policy_bench("srpt", {"max_wait": 10.0}, max_num_seqs=1)
    b.add("long", 4, 30)
    begun = b.begins("long", 40, lambda step: b.add(f"short{step}", 4, 1))
    assert begun[0] == 11


def test_no_request_is_looked_at_while_those_that_wait_are_longer(policy_bench: Any) -> None:
    """An upper bound of running requests shows that none has to pause."""
    b = policy_bench("srpt", max_num_seqs=4)
    for i in range(4):
        b.add(f"r{i}", 4, 20 + i)
    b.step()
    policy = b.scheduler.components.policy
    asked = []
    key = policy.key
    policy.key = lambda request: asked.append(request.request_id) or key(request)
    for i in range(10):
        b.add(f"w{i}", 4, 40 + i)
        b.step()
    assert set(asked) <= {f"w{i}" for i in range(10)}


def test_who_has_waited_too_long_keeps_its_place_whatever_comes(policy_bench: Any) -> None:
    """Two that are overdue are served as they came, before shorter ones of any age."""
    b = policy_bench("srpt", {"max_wait": 5.0, "pausing": False}, max_num_seqs=1)
    b.add("running", 4, 10)
    b.run(1, seconds=1.0)
    b.add("long", 4, 90)
    b.add("longer", 4, 99)
    b.run(7, seconds=1.0)
    b.add("short", 4, 3)
    b.add("shorter", 4, 2)
    queue = b.scheduler.components.policy.queue
    for _ in range(2):  # and sorting anew changes nothing
        assert [r.request_id for r in queue] == ["long", "longer", "shorter", "short"]
        for request in list(queue):
            queue.rekey(request)
