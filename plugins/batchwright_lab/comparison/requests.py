"""The requests of a cell, as they were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

__all__ = ["Ended", "longest_passed_over", "passed_over", "requests_of"]


@frozen
class Ended:
    """A request.

    Args:
        client: The client that it is of; empty: of none.
        slo_class: Its class, or None.
        arrival: Seconds.
        scheduled: Time of its first admission (seconds); None: never.
        latencies: TTFT, TPOT and E2E (seconds), as far as there are any.
        has_ended: True if it ended by itself.
        end: ``stop``, ``length``, ``abort``, ``error``, ``refused`` or ``unfinished``.
    """

    client: str
    slo_class: str | None
    arrival: float
    scheduled: float | None
    latencies: Mapping[str, float | None]
    has_ended: bool
    end: str


def requests_of(columns: Mapping[str, Sequence[Any]]) -> list[Ended]:
    """Read the columns of a recorder."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [
        Ended(
            row["client"] or "",
            row["slo_class"],
            row["arrival"],
            row["scheduled"],
            _latencies(row),
            row["end"] in ("stop", "length"),
            row["end"],
        )
        for row in rows
    ]


def _latencies(row: Mapping[str, Any]) -> dict[str, float | None]:
    """As ``batchwright_plugins.metrics.RequestTimes`` defines them."""
    arrival, first, finish = row["arrival"], row["first_token"], row["finish"]
    num_later = row["output_tokens"] - 1
    has_tpot = first is not None and finish is not None and num_later > 0
    return {
        "ttft": None if first is None else first - arrival,
        "tpot": (finish - first) / num_later if has_tpot else None,
        "e2e": None if finish is None else finish - arrival,
    }


def passed_over(requests: Sequence[Ended], end: float) -> Iterator[tuple[float, Ended]]:
    """Yield the time for which each request waited after a later one was admitted (seconds).

    In order of arrival no request is passed over, whatever the load: this is what a policy
    does to a request, not what the load does.

    Args:
        requests: Those of a cell; refused ones are left out.
        end: When the cell ended: until then those waited that were never admitted.
    """
    waited = [request for request in requests if request.end != "refused"]
    waited.sort(key=lambda request: request.arrival)
    first_later = float("inf")
    index = len(waited)
    while index:
        arrival = waited[index - 1].arrival
        together = []  # those that come at the same time do not pass one another over
        while index and waited[index - 1].arrival == arrival:
            index -= 1
            together.append(waited[index])
        for request in together:
            admitted = end if request.scheduled is None else request.scheduled
            yield max(0.0, admitted - first_later), request
        for request in together:
            if request.scheduled is not None:
                first_later = min(first_later, request.scheduled)


def longest_passed_over(requests: Sequence[Ended], end: float) -> float:
    """The longest of them (seconds)."""
    return max((seconds for seconds, _ in passed_over(requests, end)), default=0.0)
