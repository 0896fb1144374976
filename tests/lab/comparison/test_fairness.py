"""Service in contention, and Jain's index of it."""

from __future__ import annotations

import pytest

from batchwright_lab.comparison.fairness import ClientService, jain_index, service_in_contention


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3, 3, 3], 1.0), ([1, 0, 0, 0], 0.25), ([1, 2, 3], 36 / (3 * 14)), ([5], None), ([], None)],
)
def test_jain_index(values: list[float], expected: float | None) -> None:
    assert jain_index(values) == expected


def test_jain_index_of_nothing_but_zeros_is_none() -> None:
    assert jain_index([0.0, 0.0]) is None


def test_only_time_in_which_two_want_more_counts() -> None:
    """From 1 to 3 both wait; before and after one is alone; c never waits."""
    found = service_in_contention(
        [0, 1, 3, 4],
        {"a": [0, 10, 40, 90], "b": [0, 0, 10, 11], "c": [0, 7, 8, 9]},
        {"a": [2, 2, 2, 2], "b": [0, 1, 1, 0], "c": [0, 0, 0, 0]},
    )
    assert found["a"] == ClientService(30, 2)
    assert found["b"] == ClientService(10, 2)
    assert (found["a"].rate, found["b"].rate, found["c"].rate) == (15.0, 5.0, None)
