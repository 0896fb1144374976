"""A window of arrival order, filtered and scored."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.exceptions import ConfigError


@pytest.fixture
def window(policy_bench: Any) -> Any:
    def make(*, seats: int = 1, bench: dict[str, Any] | None = None, **options: Any) -> Any:
        weights = {"hit": 0.0, "age": 0.0, **options}
        return policy_bench("window", weights, max_num_seqs=seats, **(bench or {}))

    return make


def view(b: Any, name: str) -> Any:
    return b.scheduler.requests[name].view


def test_without_weights_it_is_first_come_first_served(window: Any) -> None:
    b = window()
    for i in range(5):
        b.add(f"r{i}", 10 + i, 1)
    assert b.order() == [f"r{i}" for i in range(5)]


def test_scorers_say_what_they_should(window: Any) -> None:
    b = window(hit=1.0, age=1.0, size=1.0, fairness=2.0, max_age=20.0, bench={"max_model_len": 100})
    policy = b.scheduler.components.policy
    shared = b.tokens(16)
    b.add("first", [*shared, 1], 3, client="x")
    b.drain()
    b.scheduler.clock.advance(5.0)
    b.add("A", shared + b.tokens(4), 1, client="x")
    b.add("B", 20, 1, client="y")
    b.scheduler.clock.advance(10.0)
    b.scheduler.pause()
    b.step()
    a = view(b, "A")
    assert policy.hit(a) == 16 / 20
    assert policy.age(a) == 0.5
    assert policy.size(a) == 0.8
    assert policy.fairness(a) == 0.0  # its client was served most
    assert policy.fairness(view(b, "B")) == 1.0
    assert policy.score(a) == pytest.approx((0.8 + 0.5 + 0.8 + 0.0) / 5)
    assert policy.score(view(b, "B")) == pytest.approx((0.0 + 0.5 + 0.8 + 2.0) / 5)


def test_the_best_score_of_the_window_is_next(window: Any) -> None:
    """Shortest first, among the first three."""
    b = window(size=1.0, window=3)
    for name, prompt in (("a", 30), ("b", 20), ("c", 40), ("d", 5), ("e", 10)):
        b.add(name, prompt, 1)
    # b of a b c; d of a c d; e of a c e; then a, c.
    assert b.order() == ["b", "d", "e", "a", "c"]


def test_age_wins_in_time(window: Any) -> None:
    """A prompt of 2000 of 4000 tokens loses 0.5; 0.5 of max_age later it is even."""
    b = window(size=1.0, age=1.0, max_age=20.0, bench={"max_model_len": 4000})
    b.add("long", 2008, 1)
    begun = b.begins("long", 30, lambda step: b.add(f"s{step}", 8, 1))
    assert begun[0] == 10


def test_who_does_not_fit_is_passed_by_who_does(window: Any) -> None:
    """8 blocks, of which 5 are taken: 3 are enough for c, not for a."""
    b = window(seats=4, filters=["fits"], bench={"usable": 8})
    b.add("running", 70, 5)
    b.step()
    b.add("a", 60, 1)
    b.add("c", 40, 1)
    assert b.step() == {"running": 1, "c": 40}
    b.drain()


def test_a_client_with_its_share_of_seats_waits_behind_others(window: Any) -> None:
    """Half of four seats; x's third request is passed by y's, and taken when none is left."""
    b = window(seats=4, filters=["share"], max_share=0.5)
    for i in range(3):
        b.add(f"x{i}", 8, 9, client="x")
    b.add("y0", 8, 9, client="y")
    assert b.step() == {"x0": 8, "x1": 8, "y0": 8, "x2": 8}
    b.drain()
    assert b.scheduler.components.policy._seats == {}


def test_a_filter_that_matches_all_decides_nothing(window: Any) -> None:
    b = window(seats=2, filters=["share"], max_share=0.5)
    for i in range(3):
        b.add(f"x{i}", 8, 2, client="x")
    assert b.order() == ["x0", "x1", "x2"]


def test_options_are_checked(window: Any) -> None:
    with pytest.raises(ConfigError, match=r"policy.window.window: expected a number >= 1"):
        window(window=0)
    with pytest.raises(ConfigError, match=r"policy.window.filters\[0\]: expected one of 'fits'"):
        window(filters=["fit"])


def test_who_has_reached_max_age_is_next_whatever_others_weigh(window: Any) -> None:
    """Though all of the window are as old: 15 came before it, and one comes a step."""
    b = window(age=1.0, size=9.0, max_age=20.0, window=8, bench={"max_model_len": 4000})
    for i in range(30):
        b.add(f"p{i}", 8, 1)
    b.add("long", 2008, 1)
    begun = b.begins("long", 100, lambda step: b.add(f"s{step}", 8, 1))
    assert begun[0] == 30


def test_who_has_reached_max_age_is_next_whatever_filters_say(window: Any) -> None:
    """x has its share, and is passed by y for 20 s."""
    b = window(seats=2, age=1.0, max_age=20.0, filters=["share"], max_share=0.5)
    b.add("x0", 8, 200, client="x")
    b.add("x1", 8, 1, client="x")
    begun = b.begins("x1", 100, lambda step: b.add(f"y{step}", 8, 1, client="y"))
    assert begun[0] == 20
