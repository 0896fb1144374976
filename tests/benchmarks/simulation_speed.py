"""Simulated requests a second, from the start of the command to its end.

    python tests/benchmarks/simulation_speed.py                     # made arrivals
    python tests/benchmarks/simulation_speed.py --traces FOLDER     # real traces
    python tests/benchmarks/simulation_speed.py --traces FOLDER --million

FOLDER holds AzureLLMInferenceTrace_conv.csv (Azure/AzurePublicDataset) and
mooncake_fast25_conversation_trace.jsonl (kvcache-ai/Mooncake); without it, as many arrivals
of the same rate and like lengths are made. Each run is a process of its own on one core,
which writes requests.csv; CPU seconds tell more than wall time where other work is going on.
Step times are those of ``linear`` with the coefficients of an RTX PRO 6000 and Llama-3.1-8B.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from attrs import frozen

sys.path.insert(0, str(Path(__file__).parent))

from records import Record

ROOT = Path(__file__).resolve().parents[2]
AZURE = "AzureLLMInferenceTrace_conv.csv"
MOONCAKE = "mooncake_fast25_conversation_trace.jsonl"
SETTINGS = ("model.max_model_len=131072", "kv.num_blocks=33000", "scheduler.max_num_seqs=256")
LIKE_AZURE = (
    "workload.poisson.rate=5.53",
    "workload.poisson.prompt.mean=1155",
    "workload.poisson.prompt.cv=1.0",
    "workload.poisson.output.mean=211",
    "workload.poisson.output.cv=0.8",
    "workload.poisson.output.most=1000",
)
NUM_REQUESTS = 19_366


@frozen
class Measured:
    """One run of the command.

    Args:
        wall: Seconds.
        cpu: Seconds of CPU time, user and system.
        peak: Most memory (MiB).
        summary: What it wrote.
    """

    wall: float
    cpu: float
    peak: float
    summary: dict[str, float]

    @property
    def num_requests(self) -> int:
        return int(self.summary["requests_arrived"])


def run(workload: str, *overrides: str, arguments: tuple[str, ...] = ()) -> Measured:
    """Run the command once.

    Raises:
        RuntimeError: It failed.
    """
    given = [part for override in (*SETTINGS, *overrides) for part in ("-o", override)]
    paths = os.pathsep.join([str(ROOT / "core"), str(ROOT / "plugins")])
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "batchwright", "simulate", "--workload", workload,
            "--output", folder, *given, *arguments,
        ]  # fmt: skip
        messages, begin = Path(folder) / "messages.txt", time.perf_counter()
        with messages.open("w") as file:
            process = subprocess.Popen(
                command,
                stdout=file,
                stderr=file,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
                preexec_fn=_on_one_core,
            )
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        if status:
            raise RuntimeError(f"batchwright simulate failed:\n{messages.read_text()[-3000:]}")
        summary = json.loads((Path(folder) / "summary.json").read_text())
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, summary)


def _on_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _report(title: str, found: Measured) -> None:
    carried = found.summary["decode_batch_ratio"]
    count = found.num_requests
    print(
        f"{title:44} {count:9,} {count / found.wall:9,.0f} {count / found.cpu:9,.0f} "
        f"{found.summary['simulated_s'] / found.wall:9,.0f} {carried:8.1%} {found.peak:8,.0f}",
        flush=True,
    )


def cases(traces: Path | None, *, million: bool) -> dict[str, Callable[[], Measured]]:
    """Return the simulations, by title."""
    workload, made = "poisson", (*LIKE_AZURE, f"workload.poisson.num_requests={NUM_REQUESTS}")
    title = "arrivals made like those of the Azure conversation trace"
    if traces is not None:
        workload, made = f"azure:{traces / AZURE}", ()
        title = "Azure conversation trace at its own rate"
    off = (*made, "kv.enable_prefix_caching=false")
    found = {
        f"{title}, caching off": partial(run, workload, *off),
        f"{title}, caching off, every step taken": partial(
            run, workload, *off, "simulation.fast_forward=false"
        ),
        f"{title}, caching on": partial(run, workload, *made),
    }
    if traces is not None:
        found["Mooncake conversation trace at 0.4 of its rate, caching on"] = partial(
            run,
            f"mooncake:{traces / MOONCAKE}",
            arguments=("--limit", "2000", "--scale-rate", "0.4"),
        )
    if million:
        times = "workload.azure.repeat=50" if traces else made[-1] + "00"
        found[f"{title}, caching off, a million"] = partial(run, workload, *off, times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder of real traces")
    parser.add_argument("--million", action="store_true", help="50 times the trace as well")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each, by turns")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write raw results there")
    arguments = parser.parse_args()
    record = Record([], rounds=arguments.rounds)
    heads = ("requests", "1/s wall", "1/s CPU", "x real", "carried", "MiB")
    print(" " * 44, *(f"{h:>{w}}" for h, w in zip(heads, (9, 9, 9, 9, 8, 8), strict=True)))
    chosen = cases(arguments.traces, million=arguments.million)
    found: dict[str, list[Measured]] = {title: [] for title in chosen}
    for _ in range(arguments.rounds):
        for title, simulate in chosen.items():
            found[title].append(simulate())
            _report(title, found[title][-1])
    for title, runs in found.items():
        rounds = [[round(r.wall, 3), round(r.cpu, 3), round(r.peak, 1)] for r in runs]
        summary = {name: runs[-1].summary[name] for name in ("simulated_s", "decode_batch_ratio")}
        record.add(what=title, requests=runs[-1].num_requests, rounds=rounds, **summary)
    record.write(arguments.record)


if __name__ == "__main__":
    main()
