"""Recorded requests: latencies, and who was passed over."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright_lab.comparison.requests import passed_over, requests_of

ROW: dict[str, Any] = {
    "client": None, "slo_class": None, "arrival": 1.0, "scheduled": 1.5, "first_token": 2.0,
    "finish": 5.0, "output_tokens": 4, "end": "stop",
}  # fmt: skip


def read(*rows: dict[str, Any]) -> Any:
    whole = [{**ROW, **row} for row in rows]
    return requests_of({name: [row[name] for row in whole] for name in ROW})


def times(*rows: tuple[float, float | None], end: float = 100.0) -> list[float]:
    """By order of arrival, how long each was passed over."""
    requests = read(*({"arrival": a, "scheduled": s} for a, s in rows))
    found = {id(request): seconds for seconds, request in passed_over(requests, end)}
    return [found[id(request)] for request in requests]


def test_latencies_are_those_of_the_metrics() -> None:
    (request,) = read({})
    assert request.latencies == {"ttft": 1.0, "tpot": 1.0, "e2e": 4.0}
    assert request.has_ended


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"output_tokens": 1}, {"ttft": 1.0, "tpot": None, "e2e": 4.0}),
        ({"first_token": None, "output_tokens": 0}, {"ttft": None, "tpot": None, "e2e": 4.0}),
        ({"finish": None, "end": "unfinished"}, {"ttft": 1.0, "tpot": None, "e2e": None}),
    ],
)
def test_latencies_that_there_are_not(row: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read(row)[0].latencies == expected


@pytest.mark.parametrize("end", ["abort", "error", "refused", "unfinished"])
def test_other_ends_are_none_by_itself(end: str) -> None:
    assert not read({"end": end})[0].has_ended


def test_in_order_of_arrival_no_request_is_passed_over() -> None:
    assert times((0, 5), (1, 6), (2, 60)) == [0, 0, 0]


def test_time_runs_from_the_first_that_came_later() -> None:
    assert times((0, 9), (1, 3), (2, 4)) == [6, 0, 0]


def test_who_is_never_admitted_waits_until_the_end() -> None:
    assert times((0, None), (1, 3), end=20.0) == [17, 0]


def test_no_request_passes_one_of_the_same_time() -> None:
    assert times((0, 9), (0, 3)) == [0, 0]


def test_refused_requests_neither_pass_nor_wait() -> None:
    requests = read(
        {"arrival": 0, "scheduled": 9}, {"arrival": 1, "scheduled": None, "end": "refused"}
    )
    assert [seconds for seconds, _ in passed_over(requests, 100.0)] == [0]
