"""Warm conversations first, for a while."""

from __future__ import annotations

from typing import Any


def test_the_next_turn_of_a_warm_group_goes_first(policy_bench: Any) -> None:
    b = policy_bench("session", max_num_seqs=1)
    b.add("s0", 8, 2, group="s")
    b.run(3)
    b.add("new", 8, 1)
    b.add("other", 8, 1, group="t")
    b.add("s1", 12, 1, group="s")
    b.add("s2", 12, 1, group="s")
    assert b.order() == ["s1", "s2", "new", "other"]


def test_a_group_cools(policy_bench: Any) -> None:
    """5 s after s was last served; s1 came in time and waits until then."""
    b = policy_bench("session", {"warm_time": 5.0}, max_num_seqs=1)
    b.add("s0", 8, 1, group="s")
    b.run(1)
    b.add("running", 8, 8)
    b.run(1)
    b.add("new", 8, 1)
    b.add("s1", 12, 1, group="s")
    queue = b.scheduler.components.policy.queue
    assert [r.request_id for r in queue] == ["s1", "new"]
    b.run(4)  # s0 ended at 0 s; it is 6 s now
    assert [r.request_id for r in queue] == ["new", "s1"]
    b.add("s2", 12, 1, group="s")  # too late
    assert b.order() == ["running", "new", "s1", "s2"]


def test_others_wait_for_a_bounded_time(policy_bench: Any) -> None:
    b = policy_bench("session", {"max_wait": 10.0}, max_num_seqs=1)
    b.add("s", 8, 1, group="s")
    b.run(1)
    b.add("new", 8, 1)
    begun = []
    for step in range(30):
        b.add(f"s{step}", 8, 1, group="s")
        if "new" in b.run(1)[0]:
            begun.append(step)
    assert begun == [11]


def test_a_group_that_never_cools_sets_no_alarm(policy_bench: Any) -> None:
    b = policy_bench("session", {"warm_time": float("inf")}, max_num_seqs=1)
    b.add("s0", 8, 1, group="s")
    b.run(1)
    b.add("new", 8, 1)
    b.add("s1", 12, 1, group="s")
    assert b.scheduler.next_alarm is None
    assert b.order() == ["s1", "new"]


def test_an_aborted_request_warms_nobody(policy_bench: Any) -> None:
    b = policy_bench("session", max_num_seqs=1)
    b.add("running", 8, 5)
    b.step()
    b.add("s0", 8, 1, group="s")
    b.scheduler.abort("s0")
    b.add("new", 8, 1)
    b.add("s1", 8, 1, group="s")
    assert b.order() == ["running", "new", "s1"]
