"""Output tokens a second of whole engines: ours, or beside peers, in turn.

    python tests/benchmarks/engine_speed.py                      # ours alone
    python tests/benchmarks/engine_speed.py --peer-python PYTHON # and peers, by turns
    python tests/benchmarks/engine_speed.py --only tiny chat-bfloat16 --rounds 5

Every engine answers in a process of its own, one after the other, several rounds; the
table has the median of each, and their smallest and largest. All of them get the same
token ids, as many threads, and OpenMP threads that look a thousand times before they
sleep, as `batchwright` has them: vLLM with two threads gains a fifth by that, too. CPU time is
that of the measured run; on a machine with other work it says more than the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from engine_workloads import ROOT, WORKLOADS, Workload

HERE = Path(__file__).parent
PEERS = ("vllm", "generate", "continuous")
Rates = tuple[float, float]
"""Output tokens a second, and a second of CPU time (all threads together)."""

CONFIG = """
[model]
path = {path!r}
dtype = {dtype!r}
max_model_len = 1024

[scheduler]
max_num_seqs = 64
max_num_batched_tokens = 2048

[kv]
num_blocks = 1200
block_size = 16

[executor.torch]
device = "cpu"
threads = {threads}
"""


def ours(work: dict[str, Any], folder: Path) -> dict[str, Any]:
    config = folder / "ours.toml"
    config.write_text(CONFIG.format(**work))
    command = ["-m", "batchwright", "bench", str(config), "--prompts", work["prompts"], "--json"]
    return _run([sys.executable, *command], work)


def peer(python: str, engine: str, work: dict[str, Any], folder: Path) -> dict[str, Any]:
    file = folder / "work.json"
    file.write_text(json.dumps(work))
    return _run([python, str(HERE / "engine_peers.py"), engine, str(file)], work)


def _run(command: list[str], work: dict[str, Any]) -> dict[str, Any]:
    """Run a process, and read the object in its last line.

    Raises:
        RuntimeError: It failed.
    """
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(work["threads"]),
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "1000",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("core", "plugins")),
    }
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # Linux divides a busy machine by sessions, and vLLM makes one
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def measure(
    workload: Workload, python: str | None, peers: Sequence[str], rounds: int, folder: Path
) -> dict[str, list[Rates]]:
    """By engine, the rates of every round; each is told as it comes."""
    work = workload.write(folder)
    engines = ("batchwright", *(peers if python is not None else ()))
    rates: dict[str, list[Rates]] = {engine: [] for engine in engines}
    for _ in range(rounds):
        for engine in engines:
            theirs = python if engine != "batchwright" else None
            answer = peer(theirs, engine, work, folder) if theirs else ours(work, folder)
            cpu = answer["output_tokens"] / answer["cpu_seconds"]
            rates[engine].append((answer["output_tokens_per_second"], cpu))
            shown = ", ".join(f"{rate:,.0f}" for rate in rates[engine][-1])
            print(f"{workload.name} {engine}: {shown}", file=sys.stderr, flush=True)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", help="Python of an environment with vLLM")
    parser.add_argument("--only", nargs="*", default=[w.name for w in WORKLOADS])
    parser.add_argument("--peers", nargs="*", default=PEERS)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"output tokens a second and a CPU second, medians of {arguments.rounds} rounds")
    print(f"{'':<29}{'a second':>9} {'(least, most)':<18}{'CPU':>9}  ours is, by CPU")
    for workload in WORKLOADS:
        if workload.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            rates = measure(
                workload, arguments.peer_python, arguments.peers, arguments.rounds, Path(folder)
            )
        for engine, values in rates.items():
            print(_row(workload.name, engine, values, rates["batchwright"]), flush=True)


def _row(workload: str, engine: str, values: list[Rates], ours: list[Rates]) -> str:
    rates = [rate for rate, _ in values]
    median, cpu = (statistics.median(column) for column in zip(*values, strict=True))
    base, base_cpu = (statistics.median(column) for column in zip(*ours, strict=True))
    spread = f"({min(rates):,.0f}, {max(rates):,.0f})"
    ratio = "" if values is ours else f"{base / median:>6.2f}x{base_cpu / cpu:>6.2f}x"
    return f"{workload:<16}{engine:<13}{median:>9,.0f} {spread:<18}{cpu:>9,.0f} {ratio}"


if __name__ == "__main__":
    main()
