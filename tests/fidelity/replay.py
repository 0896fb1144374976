"""Replays runs of a real engine in simulation, and compares.

    python tests/fidelity/replay.py                  # figures
    python tests/fidelity/replay.py --plots FOLDER   # and plots, SVG

A request's TTFT is from its queueing to its first token, TPOT the mean time between its
tokens, E2E from its queueing to its last token.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from batchwright_lab.simulation.simulated_run import SimulatedRun
from batchwright_plugins.metrics import mean, percentile

RUNS = Path(__file__).parent / "runs"
SETTINGS: dict[str, dict[str, int]] = {
    "rtx4090-llama3.1-8b": {"scheduler.max_num_seqs": 256, "kv.num_blocks": 2588},
    "rtxpro6000-llama3.1-8b": {"scheduler.max_num_seqs": 128, "kv.num_blocks": 36_000},
}
TIMES = ("ttft", "tpot", "e2e")
BARS = {"mean": 0.05, "median": 0.10, "p99": 0.10}
Errors = dict[str, dict[str, float]]


@frozen
class Times:
    """Times of one request (seconds)."""

    ttft: float
    tpot: float
    e2e: float

    @classmethod
    def of(cls, arrival: float, first: float, last: float, num_output: int) -> Times:
        return cls(first - arrival, (last - first) / max(1, num_output - 1), last - arrival)


def measured(name: str) -> list[dict[str, float]]:
    with (RUNS / f"{name}.csv").open(newline="") as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def real(name: str) -> list[Times]:
    return [
        Times.of(r["queued_s"], r["first_token_s"], r["last_token_s"], int(r["output_tokens"]))
        for r in measured(name)
    ]


def replay(name: str, estimator: str = "table", **options: Any) -> list[Times]:
    """Simulate a run; options are those of the estimator."""
    with tempfile.TemporaryDirectory() as folder:
        trace, output = Path(folder) / "trace.jsonl", Path(folder) / "out"
        trace.write_text("".join(f"{line}\n" for line in _trace(name)))
        given: Mapping[str, Any] = {
            "simulation.estimator": estimator,
            "model.max_model_len": 32_768,
            "scheduler.max_num_batched_tokens": 2048,
            "scheduler.pipeline_depth": 2,  # as vLLM's asynchronous scheduling
            **SETTINGS[name],
            f"estimator.{estimator}.profile": json.dumps(name),
            **{f"estimator.{estimator}.{key}": value for key, value in options.items()},
        }
        overrides = [f"{key}={value}" for key, value in given.items()]
        SimulatedRun(None, overrides, workload=f"jsonl:{trace}", output=output).simulate()
        with (output / "requests.csv").open(newline="") as file:
            rows = {int(row["request_id"]): row for row in csv.DictReader(file)}
    return [_simulated(rows[number]) for number in range(len(rows))]


def _trace(name: str) -> Iterator[str]:
    for number, row in enumerate(measured(name)):
        output = int(row["output_tokens"])
        yield json.dumps(
            {
                "request_id": str(number),
                "time": row["queued_s"],
                "prompt_tokens": int(row["prompt_tokens"]),
                "output_tokens": output,
                "max_tokens": output,
            }
        )


def _simulated(row: Mapping[str, str]) -> Times:
    arrival, first, last = (float(row[f"{n}_s"]) for n in ("arrival", "first_token", "finish"))
    return Times.of(arrival, first, last, int(row["output_tokens"]))


def errors(simulated: Sequence[Times], real: Sequence[Times]) -> Errors:
    """Relative errors of mean, median and p99 of each time."""
    found: Errors = {}
    for name in TIMES:
        ours, theirs = (sorted(getattr(t, name) for t in times) for times in (simulated, real))
        found[name] = {
            "mean": _ratio(mean(ours), mean(theirs)),
            "median": _ratio(percentile(ours, 50), percentile(theirs, 50)),
            "p99": _ratio(percentile(ours, 99), percentile(theirs, 99)),
        }
    return found


def _ratio(ours: float | None, theirs: float | None) -> float:
    assert ours is not None
    assert theirs
    return ours / theirs - 1


def fit(name: str) -> float:
    """The per_request for which mean TPOT is right, to a tenth of a microsecond."""
    low, high = 0.0, 4e-5
    theirs = real(name)
    while high - low > 1e-7:
        middle = (low + high) / 2
        if errors(replay(name, per_request=middle), theirs)["tpot"]["mean"] < 0:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 8)


def report(title: str, found: Errors) -> None:
    cells = [f"{found[time][figure]:+7.1%}" for time in TIMES for figure in BARS]
    misses = [
        f"{time} {figure}"
        for time in TIMES
        for figure, bar in BARS.items()
        if abs(found[time][figure]) > bar
    ]
    print(f"{title:58}", *cells, *([f"  misses {', '.join(misses)}"] if misses else []))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plots", type=Path, help="folder for plots")
    arguments = parser.parse_args()
    print(" " * 58, *(f"{time} {figure}".rjust(7)[:9] for time in TIMES for figure in BARS))
    fitted = {name: fit(name) for name in SETTINGS}
    for name in SETTINGS:
        theirs = real(name)
        report(f"{name}, linear", errors(replay(name, "linear"), theirs))
        report(f"{name}, table alone", errors(replay(name, per_request=0.0), theirs))
        for source, value in fitted.items():
            title = f"{name}, {value * 1e6:.1f} us a request ({source.split('-')[0]})"
            report(title, errors(replay(name, per_request=value), theirs))
        report(f"{name}, as shipped", errors(replay(name), theirs))
        if arguments.plots is not None:
            from plots import scatter

            path = arguments.plots / f"fidelity-{name}.svg"
            path.write_text(scatter(name, replay(name), theirs))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
