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
    begun = b.begins("new", 30, lambda step: b.add(f"s{step}", 8, 1, group="s"))
    assert begun[0] == 11


def test_a_group_that_never_cools_sets_no_alarm(policy_bench: Any) -> None:
    b = policy_bench("session", {"warm_time": float("inf")}, max_num_seqs=1)
    b.add("s0", 8, 1, group="s")
    b.run(1)
    b.add("new", 8, 1)
    b.add("s1", 12, 1, group="s")
    assert b.scheduler.next_timer is None
    assert b.order() == ["s1", "new"]


def test_an_aborted_request_warms_no_group(policy_bench: Any) -> None:
    b = policy_bench("session", max_num_seqs=1)
    b.add("running", 8, 5)
    b.step()
    b.add("s0", 8, 1, group="s")
    b.scheduler.abort("s0")
    b.add("new", 8, 1)
    b.add("s1", 8, 1, group="s")
    assert b.order() == ["running", "new", "s1"]


def test_those_who_wait_warm_up_with_their_group(policy_bench: Any) -> None:
    """s1 came while its group was cold; once s0 is served it goes before other first turns."""
    b = policy_bench("session", max_num_seqs=1)
    for name, group in (("s0", "s"), ("new", None), ("other", "t"), ("s1", "s")):
        b.add(name, 8, 1, group=group)
    assert b.order() == ["s0", "s1", "new", "other"]


def test_a_group_that_is_served_again_stays_warm(policy_bench: Any) -> None:
    """s0 ended at 0 s, s1 at 4 s: s2, which came at 1 s, is warm until 9 s."""
    b = policy_bench("session", {"warm_time": 5.0}, max_num_seqs=1)
    b.add("s0", 8, 1, group="s")
    b.run(1)
    b.add("s1", 8, 4, group="s")
    b.add("s2", 8, 1, group="s")
    queue = b.scheduler.components.policy.queue
    b.run(4)
    b.scheduler.pause()  # s2 waits on
    b.add("new", 8, 1)
    b.run(4)
    assert [r.request_id for r in queue] == ["s2", "new"]
    b.scheduler.clock.advance(1.0)
    b.step()
    b.add("newer", 8, 1)
    b.run(2)
    b.add("s3", 8, 1, group="s")
    assert b.scheduler.next_timer is None
    assert [b.scheduler.components.policy.ctx.data(r).is_warm for r in queue] == [False] * 4


def test_who_yields_returns_warm(policy_bench: Any) -> None:
    """Its group was cold when it came, and has been served since."""
    b = policy_bench("session", {"max_wait": 1e6}, usable=6, block_size=4)
    policy = b.scheduler.components.policy
    b.add("A", 8, 12)
    preempted = b.add("B", 8, 12, group="s")
    while not preempted.num_preemptions:
        b.run(1)
    assert policy.key(preempted.view) == 0
    b.drain()
    assert policy._waiting == {}
