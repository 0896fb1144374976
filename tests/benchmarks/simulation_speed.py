"""How many requests a second are simulated, from the start of the command to its end.

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
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attrs import frozen

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
        peak: Most memory (MiB) of any run so far.
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
    """Run the command once."""
    given = [part for override in (*SETTINGS, *overrides) for part in ("-o", override)]
    paths = os.pathsep.join([str(ROOT / "core"), str(ROOT / "plugins")])
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "batchwright", "simulate", "--workload", workload,
            "--output", folder, *given, *arguments,
        ]  # fmt: skip
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            preexec_fn=_on_one_core,
        )
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        summary = json.loads((Path(folder) / "summary.json").read_text())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(wall, cpu, after.ru_maxrss / 1024, summary)


def _on_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def report(title: str, found: Measured) -> None:
    carried = found.summary["carried_ratio"]
    count = found.num_requests
    print(
        f"{title:44} {count:9,} {count / found.wall:9,.0f} {count / found.cpu:9,.0f} "
        f"{found.summary['simulated_s'] / found.wall:9,.0f} {carried:8.1%} {found.peak:8,.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder of real traces")
    parser.add_argument("--million", action="store_true", help="50 times the trace as well")
    arguments = parser.parse_args()
    heads = ("requests", "1/s wall", "1/s CPU", "x real", "carried", "MiB")
    print(" " * 44, *(f"{h:>{w}}" for h, w in zip(heads, (9, 9, 9, 9, 8, 8), strict=True)))
    if arguments.traces is None:
        workload, made = "poisson", (*LIKE_AZURE, f"workload.poisson.num_requests={NUM_REQUESTS}")
    else:
        workload, made = f"azure:{arguments.traces / AZURE}", ()
    name = workload.partition(":")[0]
    off = "kv.enable_prefix_caching=false"
    report(f"{name}, caching off", run(workload, *made, off))
    report(f"{name}, caching off, every step", run(workload, *made, off, "simulation.leap=false"))
    report(f"{name}, caching on", run(workload, *made))
    if arguments.traces is not None:
        mooncake = run(
            f"mooncake:{arguments.traces / MOONCAKE}",
            arguments=("--limit", "2000", "--scale-rate", "0.4"),
        )
        report("mooncake, caching on, 0.4 of its rate", mooncake)
    if arguments.million:
        times = "workload.azure.repeat=50" if arguments.traces else made[-1] + "00"
        report(f"{name}, caching off, a million", run(workload, *made, off, times))


if __name__ == "__main__":
    main()
