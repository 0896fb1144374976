"""Figures in words."""

from __future__ import annotations

import pytest

from batchwright_lab.comparison.measure import MEASURES
from batchwright_lab.comparison.summary import Spread
from batchwright_lab.comparison.wording import spread_range, value


@pytest.mark.parametrize(
    ("key", "number", "expected"),
    [
        ("ttft_p50", 0.01234, "12.3 ms"),
        ("ttft_p50", 1.234, "1.23 s"),
        ("ttft_p50", 1234.0, "1,234 s"),
        ("ttft_p50", 0.0, "0 ms"),
        ("attainment", 0.9314, "93.1%"),
        ("jain", 0.9314, "0.93"),
        ("preemptions", 12.0, "12"),
        ("preemptions", 12.25, "12.2"),
        ("goodput", 3.456, "3.46 req/s"),
        ("output_tokens_per_s", 1234.5, "1,234 tok/s"),
        ("e2e_p99", None, "\N{EN DASH}"),
    ],
)
def test_value_has_its_unit(key: str, number: float | None, expected: str) -> None:
    assert value(MEASURES[key], number) == expected


@pytest.mark.parametrize(
    ("low", "high", "count", "expected"),
    [
        (1.0, 2.0, 3, "1.00\N{EN DASH}2.00 s"),
        (0.5, 2.0, 3, "500 ms\N{EN DASH}2.00 s"),
        (1.0, 1.0, 1, ""),
    ],
)
def test_range_says_a_common_unit_once(low: float, high: float, count: int, expected: str) -> None:
    assert spread_range(MEASURES["e2e_mean"], Spread(1.5, low, high, count)) == expected
