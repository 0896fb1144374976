"""Longest cached prefix first, kept current for all that wait."""

from __future__ import annotations

from typing import Any


def names(b: Any) -> list[str]:
    """Waiting requests in serving order."""
    return [request.request_id for request in b.scheduler.components.policy.queue]


def test_who_has_most_cached_is_next(policy_bench: Any) -> None:
    b = policy_bench("lpm", max_num_seqs=1)
    shared = b.tokens(48)
    b.add("first", [*shared, 1], 1)
    b.drain()
    b.add("none", 20, 1)
    b.add("one block", shared[:16] + b.tokens(20), 1)
    b.add("three blocks", shared + b.tokens(4), 1)
    b.add("two blocks", shared[:32] + b.tokens(4), 1)
    assert b.order() == ["three blocks", "two blocks", "one block", "none"]


def test_what_an_admission_computes_moves_those_that_share_it(policy_bench: Any) -> None:
    b = policy_bench("lpm", max_num_seqs=1)
    shared = b.tokens(32)
    b.add("a0", shared + b.tokens(4), 2)
    for name, prompt in (("b", b.tokens(40)), ("a1", shared + b.tokens(9))):
        b.add(name, prompt, 1)
    assert names(b) == ["a0", "b", "a1"]
    b.step()
    assert names(b) == ["a1", "b"]  # 32 of its tokens are being computed
    assert b.order() == ["a0", "a1", "b"]


def test_chunks_computed_later_are_seen_when_the_prompt_is_done(policy_bench: Any) -> None:
    """a0 computes 16 tokens a step; a1 shares 48 with it, c 16 with it."""
    b = policy_bench("lpm", max_num_seqs=1, budget=16)
    shared = b.tokens(48)
    b.add("a0", shared + b.tokens(2), 3)
    b.add("c", shared[:16] + b.tokens(2), 1)
    b.add("a1", shared + b.tokens(2), 1)
    assert b.step() == {"a0": 16}
    assert names(b) == ["c", "a1"]  # 16 of each
    b.steps(4)
    assert names(b) == ["a1", "c"]  # 48 and 16


def test_what_is_evicted_no_longer_counts(policy_bench: Any) -> None:
    """The first in the queue is looked at again before it is served."""
    b = policy_bench("lpm", max_num_seqs=1, usable=8)
    shared, other = b.tokens(32), b.tokens(16)
    b.add("first", [*shared, 1], 1)
    b.add("second", [*other, 1], 1)
    b.drain()
    b.add("large", 80, 30)
    b.step()
    b.add("a", shared + b.tokens(2), 1)
    b.add("b", other + b.tokens(2), 1)
    assert names(b) == ["a", "b"]
    b.steps(25)
    policy = b.scheduler.components.policy
    a, second = (b.scheduler.requests[name].view for name in "ab")
    assert (policy.ctx.prefix_hit(a), policy.watch.hit(a)) == (0, 32)
    assert policy.queue.peek() is second
    assert policy.watch.hit(a) == 0


def test_waiting_is_bounded(policy_bench: Any) -> None:
    """Sharers come for ever, one a step; who shares nothing is next after 10 s."""
    b = policy_bench("lpm", {"max_wait": 10.0}, max_num_seqs=1)
    shared = b.tokens(32)
    b.add("first", [*shared, 1], 1)
    b.drain()
    b.add("none", 20, 1)
    begun = b.begins("none", 30, lambda step: b.add(f"a{step}", shared + b.tokens(1), 1))
    assert begun[0] == 11


def test_without_prefix_caching_it_is_first_come_first_served(policy_bench: Any) -> None:
    b = policy_bench("lpm", max_num_seqs=1, kv={"enable_prefix_caching": False})
    shared = b.tokens(32)
    for name in "abc":
        b.add(name, shared + b.tokens(1), 1)
    assert b.order() == ["a", "b", "c"]
    assert b.scheduler.components.policy.watch.woken_by is not None


def test_salts_and_adapters_keep_prefixes_apart(policy_bench: Any) -> None:
    """The same tokens under another salt are other tokens: no request is woken."""
    b = policy_bench("lpm", max_num_seqs=1)
    shared = b.tokens(32)
    b.add("a", [*shared, 1], 1, cache_salt="x")
    b.add("c", [*shared, 2], 1, adapter="y")
    b.add("b", [*shared, 3], 1)
    policy = b.scheduler.components.policy
    views = {name: b.scheduler.requests[name].view for name in "abc"}
    for name, view in views.items():
        assert policy.watch.woken_by(view) == [views[name]]
    assert b.order() == ["a", "c", "b"]


def test_nothing_is_remembered_of_those_that_left(policy_bench: Any) -> None:
    b = policy_bench("lpm", max_num_seqs=2, usable=12, block_size=4)
    for i in range(12):
        b.add(f"r{i}", [*range(8), 100 + i], 9)
    b.steps(3)
    b.scheduler.abort(["r5", "r9"])
    b.drain()
    watch = b.scheduler.components.policy.watch
    assert watch._listed == {}
    assert watch._depths == {}
