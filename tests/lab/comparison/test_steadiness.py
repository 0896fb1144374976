"""Queues that grow, and percentiles of few requests."""

from __future__ import annotations

import attrs
import pytest

from batchwright_lab.comparison.answer import warnings
from batchwright_lab.comparison.steadiness import Growth

from .making import outcome, summary


def test_growth_is_measured_over_time_while_requests_arrive() -> None:
    """Thirds of 10..40: in 20..30 first 4, then 8 wait, in 30..40 8, then 20; 50 is too late."""
    series = {"time": [0, 15, 25, 35, 45], "waiting": [90, 4, 8, 20, 500]}
    assert Growth.of(series, 10, 40) == Growth(6, 14)
    assert Growth.of(series, 10, 10) is None
    assert Growth.of({}, 10, 40) is None


@pytest.mark.parametrize(
    ("middle", "last", "is_transient"),
    [(20, 31, True), (20, 30, False), (0, 10, True), (1, 9, False)],
)
def test_transient_is_a_queue_that_grows_by_half_and_by_ten(
    middle: float, last: float, is_transient: bool
) -> None:
    assert Growth(middle, last).is_transient == is_transient


def test_transients_are_told_by_rate() -> None:
    cells = [outcome(name, rate, e2e_mean=1) for name in "ab" for rate in (1, 2)]
    growing = [attrs.evolve(cell, growth=Growth(1, 40)) for cell in cells[1:]]
    assert list(warnings(summary(cells[0], *growing))) == [
        "A transient at 2 requests/s: the queue still grows when the last request arrives (a, b). "
        "Such figures depend on how long the run is.",
        "A transient at 1 requests/s: the queue still grows when the last request arrives (b). "
        "Such figures depend on how long the run is.",
    ]


def test_percentiles_with_few_requests_beyond_them_are_told() -> None:
    """Over both seeds; fewest of the policies; 2,000 are enough for a p99."""

    def told(*ended: float) -> list[str]:
        cells = [outcome("a", None, seed, e2e_mean=seed, ended=n) for seed, n in enumerate(ended)]
        return list(warnings(summary(*cells)))

    assert told(100, 60) == [
        "Of 160 requests that ended, 16 beyond p90, 2 beyond p99: a percentile with fewer than "
        "20 requests beyond it is rough. Take more, or more seeds."
    ]
    assert told(1000, 1000) == []
