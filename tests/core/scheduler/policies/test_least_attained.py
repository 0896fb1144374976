"""Least attained service by program, remembered beyond a program's requests."""

from __future__ import annotations

from typing import Any


def order(b: Any) -> list[str]:
    """Requests in the order in which they were served, one at a time."""
    served: dict[str, None] = {}
    while b.scheduler.has_unfinished:
        served.update(dict.fromkeys(b.step()))
    return list(served)


def test_who_has_had_least_is_next_even_after_its_requests_have_ended(load: Any) -> None:
    b = load("least_attained", max_num_seqs=1)
    b.add("long0", 20, 10, group="long")
    b.add("short0", 5, 2, group="short")
    assert order(b) == ["long0", "short0"]
    # No request of either is left, but long had 29 tokens, short 6.
    b.add("long1", 20, 10, group="long")
    b.add("short1", 5, 2, group="short")
    b.add("new0", 30, 2, group="new")
    b.add("short2", 5, 2, group="short")
    # new had nothing; then it has had 31, short 6 and 12.
    assert order(b) == ["new0", "short1", "short2", "long1"]


def test_a_request_counts_for_those_of_its_program_that_wait(load: Any) -> None:
    """What a program has had grows while other requests of it are queued."""
    b = load("least_attained", max_num_seqs=1)
    for i in range(3):
        b.add(f"a{i}", 10, 1, group="a")
        b.add(f"b{i}", 4, 1, group="b")
    # a 10; b 4, 8, 12: so a1 after b2.
    assert order(b) == ["a0", "b0", "b1", "b2", "a1", "a2"]


def test_state_is_forgotten_in_time(load: Any) -> None:
    b = load("least_attained", max_num_seqs=1, group_time_to_live=60.0)
    b.add("a0", 10, 1, group="a")
    b.add("b0", 4, 1, group="b")
    b.drain()
    b.scheduler.clock.advance(61.0)
    b.step()
    b.add("a1", 10, 1, group="a")
    b.add("b1", 4, 1, group="b")
    assert order(b) == ["a1", "b1"]  # equals again


def test_requests_without_a_program_are_served_first(load: Any) -> None:
    b = load("least_attained", max_num_seqs=1)
    b.add("a0", 10, 1, group="a")
    b.drain()
    b.add("a1", 10, 1, group="a")
    b.add("free", 10, 1)
    assert order(b) == ["free", "a1"]
