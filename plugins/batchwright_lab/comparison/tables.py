"""The figures of a comparison as CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from batchwright_engine.output_file import write_text
from batchwright_lab.comparison.measure import MEASURES

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.summary import Summary

__all__ = ["TABLES", "write_tables"]

TABLES: Final = ("cells.csv", "clients.csv", "summary.csv")

_PLACE = ("policy", "variation", "rate")


def write_tables(folder: Path, outcomes: Sequence[Outcome], summary: Summary) -> None:
    """Write ``cells.csv``, ``clients.csv`` and ``summary.csv``: equal for equal outcomes.

    Numbers are the shortest decimals that are exact; what there is nothing to measure of
    is empty. Shares are of 1, times in seconds.
    """
    classes = sorted({name for outcome in outcomes for name in outcome.by_class})
    header = [*_PLACE, "seed", *MEASURES, *(f"in_time_{name or 'other'}" for name in classes)]
    tail = ["fault", "num_component_faults", "notes", "predictor", "oracles"]
    _write(folder / "cells.csv", [*header, *tail], (_cell(o, classes) for o in outcomes))
    keys = ["ttft_mean", "ttft_p50", "ttft_p99", "e2e_mean", "e2e_p50", "e2e_p99", "attainment"]
    header = [*_PLACE, "seed", "client", "requests", "service_per_s", *keys]
    _write(folder / "clients.csv", header, _clients(outcomes, keys))
    header = [*_PLACE, "measure", "unit", "mean", "least", "most", "seeds"]
    _write(folder / "summary.csv", header, _spreads(summary))


def _cell(outcome: Outcome, classes: Sequence[str]) -> list[Any]:
    record = outcome.record
    return [
        *_place(outcome),
        outcome.seed,
        *(outcome.figures.get(key) for key in MEASURES),
        *(outcome.by_class.get(name) for name in classes),
        outcome.fault,
        record.get("num_component_faults"),
        "; ".join(outcome.notes),
        record.get("components", {}).get("predictor"),
        " ".join(record.get("oracles", ())),
    ]


def _clients(outcomes: Iterable[Outcome], keys: Sequence[str]) -> Iterator[list[Any]]:
    for outcome in outcomes:
        for name, client in outcome.clients.items():
            figures = (client.figures.get(key) for key in keys)
            place = [*_place(outcome), outcome.seed, name]
            yield [*place, client.requests, client.service_rate, *figures]


def _spreads(summary: Summary) -> Iterator[list[Any]]:
    for contender in summary.contenders:
        for rate, spreads in contender.spreads.items():
            for key, spread in spreads.items():
                place = [contender.policy, contender.variation, rate, key, MEASURES[key].unit]
                yield [*place, spread.mean, spread.least, spread.most, spread.count]


def _place(outcome: Outcome) -> list[Any]:
    return [outcome.policy, outcome.variation, outcome.rate]


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())
