"""Spreads over seeds, pairs, and who is ranked where."""

from __future__ import annotations

import pytest

from batchwright_lab.comparison.summary import Spread

from .making import outcome, summary


def test_spread_leaves_out_what_is_not_there() -> None:
    assert Spread.of([1.0, None, 3.0]) == Spread(2.0, 1.0, 3.0, 2)
    assert Spread.of([None]) is None


def test_latencies_are_compared_by_the_geometric_mean_of_paired_ratios() -> None:
    """Seed 0: 2/4 and 3/3; seed 1: 8/4 and 1/4."""
    places = ((1, 0), (2, 0), (1, 1), (2, 1))
    cells = [
        outcome(name, rate, seed, e2e_mean=value)
        for name, values in (("a", (4, 3, 4, 4)), ("b", (2, 3, 8, 1)))
        for (rate, seed), value in zip(places, values, strict=True)
    ]
    found = summary(*cells)
    versus = found.contenders[1].versus
    assert versus is not None
    assert versus.change == pytest.approx((0.5 * 1 * 2 * 0.25) ** 0.25)
    assert versus.least == pytest.approx(0.5**0.5)
    assert versus.most == pytest.approx(0.5**0.5)
    assert (versus.wins, versus.losses, versus.pairs) == (2, 1, 4)


def test_shares_are_compared_by_the_mean_of_paired_differences() -> None:
    found = summary(
        outcome("a", 1, 0, attainment=0.5), outcome("a", 1, 1, attainment=0.5),
        outcome("b", 1, 0, attainment=0.75), outcome("b", 1, 1, attainment=0.5),
        by="attainment",
    )  # fmt: skip
    versus = found.contenders[1].versus
    assert versus is not None
    assert (versus.change, versus.least, versus.most) == (0.125, 0.0, 0.25)
    assert (versus.wins, versus.losses, versus.pairs) == (1, 0, 2)


def test_best_is_first_and_equal_ones_are_in_order() -> None:
    found = summary(
        *(outcome(name, e2e_mean=value) for name, value in zip("abcd", (4, 9, 4, 1), strict=True))
    )
    assert [contender.policy for contender in found.ranked] == ["d", "a", "c", "b"]
    assert [found.rank(contender) for contender in found.contenders] == [2, 4, 3, 1]
    more = summary(
        *(outcome(name, jain=value) for name, value in zip("ab", (0.1, 0.2), strict=True)),
        by="jain",
    )
    assert [contender.policy for contender in more.ranked] == ["b", "a"]


def test_who_has_a_fault_is_not_ranked() -> None:
    found = summary(
        outcome("a", 1, e2e_mean=2), outcome("b", 1, e2e_mean=1), outcome("b", 2, fault="raised"),
        outcome("a", 2, e2e_mean=2),
    )  # fmt: skip
    assert [contender.policy for contender in found.ranked] == ["a"]
    assert found.contenders[1].faults == ["raised"]
    assert found.rank(found.contenders[1]) is None


def test_without_a_sound_baseline_means_decide() -> None:
    found = summary(
        outcome("a", fault="raised"), outcome("b", e2e_mean=2), outcome("c", e2e_mean=1)
    )
    assert [contender.policy for contender in found.ranked] == ["c", "b"]
    assert found.contenders[1].versus is None


def test_top_rate_is_the_highest_that_all_sound_ones_have() -> None:
    found = summary(
        outcome("a", 1, e2e_mean=2), outcome("a", 2, e2e_mean=2), outcome("b", 1, e2e_mean=2)
    )
    assert found.top_rate == 1
    assert summary(outcome("a", 1, e2e_mean=1), outcome("a", 3, e2e_mean=1)).top_rate == 3


def test_seeds_differ_if_any_figure_does() -> None:
    assert not summary(outcome("a", 1, 0, jain=1), outcome("a", 1, 1, jain=1)).seeds_differ
    assert not summary(outcome("a", 1, 0, jain=1), outcome("a", 2, 1, jain=2)).seeds_differ
    assert summary(outcome("a", 1, 0, jain=1), outcome("a", 1, 1, jain=2)).seeds_differ
