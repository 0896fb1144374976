"""Positions of values on an axis, and their labels."""

from __future__ import annotations

import pytest
from batchwright_lab.comparison.chart.axis import Axis, tick_label
from hypothesis import given
from hypothesis import strategies as st


def test_linear_axis_from_zero_ends_at_a_tick() -> None:
    axis = Axis.over([3.0, 97.0], 0.0, 100.0, from_zero=True)
    assert (axis.low, axis.high) == (0.0, 100.0)
    assert axis.ticks() == [0.0, 25.0, 50.0, 75.0, 100.0]
    assert (axis.at(0.0), axis.at(50.0), axis.at(100.0)) == (0.0, 50.0, 100.0)


def test_axis_may_run_backwards() -> None:
    """As that of y does: coordinates grow downwards."""
    axis = Axis.over([10.0], 200.0, 30.0, from_zero=True)
    assert (axis.at(0.0), axis.at(10.0)) == (200.0, 30.0)


def test_values_beyond_its_ends_lie_at_them() -> None:
    assert Axis(0.0, 1.0, 10.0, 20.0).at(2.0) == 20.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 5.0], [1.0, 2.0, 5.0]),
        ([0.1, 10.0], [0.1, 0.3, 1.0, 3.0, 10.0]),
        ([0.001, 100.0], [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]),
    ],
)
def test_logarithmic_ticks(values: list[float], expected: list[float]) -> None:
    axis = Axis.over(values, 0.0, 100.0, is_log=True)
    assert axis.ticks() == pytest.approx(expected)
    assert axis.at((axis.low * axis.high) ** 0.5) == pytest.approx(50.0)


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("values", [[], [0.0], [7.0], [float("inf")]])
def test_an_axis_of_little_is_one(values: list[float], is_log: bool) -> None:
    axis = Axis.over(values, 0.0, 1.0, is_log=is_log)
    assert axis.low < axis.high


@given(st.lists(st.floats(1e-6, 1e9), min_size=1), st.booleans(), st.booleans())
def test_ticks_are_few_ascending_and_on_the_axis(
    values: list[float], is_log: bool, from_zero: bool
) -> None:
    axis = Axis.over(values, 0.0, 100.0, is_log=is_log, from_zero=from_zero)
    ticks = axis.ticks()
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 17
    assert all(-0.01 <= axis.at(tick) <= 100.01 for tick in ticks)


@pytest.mark.parametrize(
    ("tick", "expected"),
    [
        (0.0, "0"),
        (0.30000000000000004, "0.3"),
        (2500.0, "2500"),
        (12_000.0, "12k"),
        (1.5e6, "1.5M"),
    ],
)
def test_labels_are_short(tick: float, expected: str) -> None:
    assert tick_label(tick) == expected
