"""Results of a cell, in figures."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from attrs import frozen

from batchwright_lab.comparison.fairness import ClientService, jain_index, service_in_contention
from batchwright_lab.comparison.requests import Ended, passed_over, requests_of
from batchwright_lab.comparison.steadiness import Growth
from batchwright_lab.comparison.targets import Targets
from batchwright_lab.comparison.trouble import fault_of, notes_of, nothing_left, unknown_classes
from batchwright_plugins.metrics import mean, percentile

__all__ = ["ClientFigures", "Outcome", "measure"]

_PERCENTILES = (50, 90, 99)
_LATENCIES = ("ttft", "tpot", "e2e")
Figures = dict[str, float | None]


@frozen
class ClientFigures:
    """Service of a client.

    Args:
        requests: Number of its requests.
        service_rate: Service a second while it and another one wanted more; None: never.
        figures: TTFT and E2E, percentiles; ``attainment``.
    """

    requests: int
    service_rate: float | None
    figures: Figures


@frozen
class Outcome:
    """A cell that is done, or whose process died.

    Args:
        policy, variation, rate, seed: Its place in the grid.
        fault: The fault that ended it; empty if there is none.
        notes: Further problems of it.
        figures: By key of ``MEASURES``; empty if it has a fault.
        by_class: Shares in time, by ``slo_class``.
        clients: By client; empty if requests have none.
        latencies: TTFT, TPOT and E2E of those that ended, ascending (seconds).
        series: Samples over time.
        record: Its stored record.
        growth: Growth of the queue while requests arrived; None if they came at once.
        num_left_out: Requests that arrived during the warm-up; they are in no figure.
        decision_seconds: Wall-clock time of a decision when the cell was run, the mean.
    """

    policy: str
    variation: str
    rate: float | None
    seed: int
    fault: str
    notes: tuple[str, ...]
    figures: Figures
    by_class: Figures
    clients: Mapping[str, ClientFigures]
    latencies: Mapping[str, array[float]]
    series: Mapping[str, Any]
    record: Mapping[str, Any]
    growth: Growth | None = None
    num_left_out: int = 0
    decision_seconds: float | None = None


def measure(
    record: Mapping[str, Any],
    targets: Targets,
    starved_after: float,
    warmup: float = 0.0,
    seen: Mapping[str, Any] | None = None,
) -> Outcome:
    """Condense what was recorded.

    Args:
        record: See ``run_cell``.
        targets: Latency targets.
        starved_after: Seconds for which a request may be passed over.
        warmup: Requests that arrive before it (seconds) are left out.
        seen: Observations of the run; see ``observe_cell``.
    """
    where = {name: record[name] for name in ("policy", "variation", "rate", "seed")}
    text = fault_of(record)
    if text:
        return Outcome(**where, fault=text, notes=(), figures={}, by_class={}, clients={},
                       latencies={}, series={}, record=record)  # fmt: skip
    everyone = requests_of(record["requests"])
    requests = [request for request in everyone if request.arrival >= warmup]
    columns = _from(record["requests"], warmup)
    in_time = [r.has_ended and targets.are_met(r.slo_class, r.latencies) for r in requests]
    series = record["series"]
    service = _service(series, warmup)
    latencies = {name: _sorted(requests, name) for name in _LATENCIES}
    waits = [
        wait for wait in passed_over(everyone, record["end_time"]) if wait[1].arrival >= warmup
    ]
    starved = sum(1 for seconds, _ in waits if seconds > starved_after)
    figures = {
        **_latency_figures(latencies),
        **_rates(record["end_time"], columns, requests, in_time if targets else None),
        **_work(record, columns),
        "jain": jain_index(s.rate for s in service.values() if s.rate is not None),
        "passed_over_max": max((seconds for seconds, _ in waits), default=0.0),
        "starved": starved,
    }
    arrivals = [request.arrival for request in requests]
    return Outcome(
        **where,
        fault="",
        notes=(
            *notes_of(record, columns, figures, starved_after),
            *unknown_classes(targets, {r.slo_class for r in everyone}),
            *nothing_left(len(everyone), len(requests), warmup),
        ),
        figures=figures,
        by_class=_by_class(requests, in_time) if targets else {},
        clients=_clients(requests, in_time if targets else None, service),
        latencies=latencies,
        series=series,
        record=record,
        growth=Growth.of(series, min(arrivals), max(arrivals)) if arrivals else None,
        num_left_out=len(everyone) - len(requests),
        decision_seconds=_decision_seconds(seen or {}),
    )


def _from(columns: Mapping[str, Sequence[Any]], warmup: float) -> Mapping[str, Sequence[Any]]:
    """The columns of requests that arrive after the warm-up."""
    counts = [arrival >= warmup for arrival in columns["arrival"]]
    if all(counts):
        return columns
    return {name: list(compress(column, counts)) for name, column in columns.items()}


def _service(series: Mapping[str, Any], warmup: float) -> dict[str, ClientService]:
    """Service of clients in contention, from the first sample after the warm-up on."""
    first = bisect_left(series["time"], warmup)
    service, backlog = (
        {client: samples[first:] for client, samples in series[name].items()}
        for name in ("service", "backlog")
    )
    return service_in_contention(series["time"][first:], service, backlog)


def _decision_seconds(seen: Mapping[str, Any]) -> float | None:
    return _ratio(seen.get("decision_seconds", 0.0), seen.get("decisions", 0))


def _sorted(requests: Sequence[Ended], name: str) -> array[float]:
    found = (r.latencies[name] for r in requests if r.has_ended)
    return array("d", sorted(value for value in found if value is not None))


def _latency_figures(latencies: Mapping[str, Sequence[float]]) -> Figures:
    figures: Figures = {}
    for name, values in latencies.items():
        figures[f"{name}_mean"] = mean(values)
        for share in _PERCENTILES:
            figures[f"{name}_p{share}"] = percentile(values, share)
    return figures


def _rates(
    end_time: float,
    columns: Mapping[str, Sequence[Any]],
    requests: Sequence[Ended],
    in_time: Sequence[bool] | None,
) -> Figures:
    ended = sum(r.has_ended for r in requests)
    begin = min((r.arrival for r in requests), default=0.0)
    finishes = [finish for finish in columns["finish"] if finish is not None]
    unfinished = sum(r.end == "unfinished" for r in requests)
    until = end_time if unfinished else max(finishes, default=begin)
    duration = until - begin
    num_good = None if in_time is None else sum(in_time)
    return {
        "arrived": len(requests),
        "ended": ended,
        "refused": sum(r.end == "refused" for r in requests),
        "failed": sum(r.end in ("error", "abort") for r in requests),
        "unfinished": unfinished,
        "duration": duration,
        "attainment": None if num_good is None else _ratio(num_good, len(requests)),
        "goodput": None if num_good is None else _ratio(num_good, duration),
        "requests_per_s": _ratio(ended, duration),
        "output_tokens_per_s": _ratio(sum(columns["output_tokens"]), duration),
    }


def _work(record: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> Figures:
    """Hits and losses of the requests; recomputed tokens and blocks are of the whole run."""
    recomputed = sum(record["requests"]["recomputed_tokens"])
    admitted = [n is not None for n in columns["cached_tokens"]]
    asked = sum(n for n, is_in in zip(columns["prompt_tokens"], admitted, strict=True) if is_in)
    return {
        "hit_ratio": _ratio(sum(n or 0 for n in columns["cached_tokens"]), asked),
        "recompute_tax": _ratio(recomputed, record["scheduled_tokens"]),
        "preemptions": sum(columns["preemptions"]),
        "displacements": sum(columns["displacements"]),
        "kv_peak": _ratio(record["most_used_blocks"], record["usable_blocks"]),
    }


def _by_class(requests: Sequence[Ended], in_time: Sequence[bool]) -> Figures:
    found: dict[str, list[bool]] = {}
    for request, good in zip(requests, in_time, strict=True):
        found.setdefault(request.slo_class or "", []).append(good)
    return {name: _ratio(sum(found[name]), len(found[name])) for name in sorted(found)}


def _clients(
    requests: Sequence[Ended], in_time: Sequence[bool] | None, service: Mapping[str, ClientService]
) -> dict[str, ClientFigures]:
    mine: dict[str, list[int]] = {}
    for index, request in enumerate(requests):
        mine.setdefault(request.client, []).append(index)
    if set(mine) <= {""}:
        return {}
    found = {}
    for client in sorted(mine):
        own = [requests[index] for index in mine[client]]
        figures = _latency_figures({name: _sorted(own, name) for name in ("ttft", "e2e")})
        if in_time is not None:
            figures["attainment"] = _ratio(sum(in_time[i] for i in mine[client]), len(own))
        rate = service[client].rate if client in service else None
        found[client] = ClientFigures(len(own), rate, figures)
    return found


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
