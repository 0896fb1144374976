"""Definitions of times and percentiles."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.testing import make_request
from batchwright_plugins.metrics import RequestTimes, mean, percentile


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 50, None),
        ([3.0], 99, 3.0),
        ([1.0, 2.0], 50, 1.5),
        ([1.0, 2.0, 3.0, 4.0], 0, 1.0),
        ([1.0, 2.0, 3.0, 4.0], 25, 1.75),
        ([1.0, 2.0, 3.0, 4.0], 100, 4.0),
    ],
)
def test_percentile_interpolates_between_ranks(values, share, expected):
    assert percentile(values, share) == expected


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30).map(sorted))
def test_percentile_50_is_the_median_and_quartiles_are_inclusive(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    assert percentile(values, 25) == pytest.approx(low)
    assert percentile(values, 50) == pytest.approx(middle)
    assert percentile(values, 75) == pytest.approx(high)


@pytest.mark.parametrize("share", [-1, 101])
def test_percentile_refuses_other_shares(share):
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], share)


def test_mean_of_nothing_is_none():
    assert mean([]) is None
    assert mean([1, 2]) == 1.5


def test_times_of_a_request_that_never_ran():
    request = make_request("A", 3, arrival_time=2.0)
    assert RequestTimes.of(request.view) == RequestTimes(None, None, None, None)


def test_times_of_a_request():
    request = make_request("A", 3, arrival_time=2.0)
    request.scheduled_time, request.first_token_time, request.finish_time = 3.0, 5.0, 11.0
    request.token_ids.extend([7, 7, 7, 7])
    assert RequestTimes.of(request.view) == RequestTimes(1.0, 3.0, 2.0, 9.0)


def test_one_token_has_no_time_between_tokens():
    request = make_request("A", 3, arrival_time=2.0)
    request.scheduled_time, request.first_token_time, request.finish_time = 3.0, 5.0, 5.0
    request.token_ids.append(7)
    assert RequestTimes.of(request.view) == RequestTimes(1.0, 3.0, None, 3.0)
