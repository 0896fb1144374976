"""Output tokens a second of whole engines: ours, or beside peers, in turn.

    python tests/benchmarks/engine_speed.py                      # ours alone
    python tests/benchmarks/engine_speed.py --peer-python PYTHON # and peers, by turns
    python tests/benchmarks/engine_speed.py --only tiny chat-bfloat16 --rounds 5

Every engine answers in a process of its own, in turn, several rounds; the table has the
median of each, and their smallest and largest. A peer is started once, Batchwright for each
round; each answers once to warm up. All of them get the same token ids, as many threads, and
OpenMP threads that look a thousand times before they sleep, as `batchwright` has them: vLLM
with two threads gains a fifth by that, too. CPU time is that of the measured run; on a
machine with other work it says more than the clock.
"""

from __future__ import annotations

import argparse
import contextlib
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
from records import Record

HERE = Path(__file__).parent
PEERS = ("vllm", "generate", "continuous")
SLOW = {"generate": 1, "continuous": 1}
"""Peers that are several times slower, and the rounds that they take part in."""
WAITING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}
Figures = dict[str, Any]
"""What an engine says of a run: ``output_tokens``, ``seconds``, ``cpu_seconds`` (of all
threads together); ours also the shares of its steps, and what the machine allows."""

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


def ours(work: dict[str, Any], folder: Path) -> Figures:
    """Answer a workload with Batchwright.

    Raises:
        RuntimeError: It failed.
    """
    config = folder / "ours.toml"
    config.write_text(CONFIG.format(**work))
    command = ["-m", "batchwright", "bench", str(config), "--prompts", work["prompts"], "--json"]
    done = subprocess.run(
        [sys.executable, *command],
        env=_environment(work, WAITING),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # Linux divides a busy machine by sessions
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"batchwright bench failed:\n{done.stdout}\n{done.stderr[-3000:]}")
    figures: Figures = json.loads(lines[-1])
    return figures


class Peer:
    """An engine of others, started once; it answers its workload whenever it is asked.

    Args:
        python: Python of its environment.
        engine: Its name in ``engine_peers.py``.
        work: The workload.
        folder: Where its messages go.
        quiet: Its OpenMP threads soon sleep, as ours; otherwise they wait as by default.

    Raises:
        RuntimeError: It failed.
    """

    def __init__(
        self, python: str, engine: str, work: dict[str, Any], folder: Path, *, quiet: bool = True
    ) -> None:
        file = folder / "work.json"
        file.write_text(json.dumps(work))
        self._messages = folder / f"{engine}.txt"
        with self._messages.open("w") as messages:
            self._process = subprocess.Popen(
                [python, str(HERE / "engine_peers.py"), engine, str(file)],
                env=_environment(work, WAITING if quiet else {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
                start_new_session=True,
            )
        self.versions: dict[str, str] = self._read()["versions"]

    def answer(self) -> Figures:
        """Answer the workload once."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return self._read()

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _read(self) -> Figures:
        """The next object in what it prints; engines print other things, too."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                figures: Figures = json.loads(line)
                return figures
        self.close()
        raise RuntimeError(f"a peer failed:\n{self._messages.read_text()[-3000:]}")


def _environment(work: dict[str, Any], waiting: dict[str, str]) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name not in WAITING},
        **waiting,
        "OMP_NUM_THREADS": str(work["threads"]),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("core", "plugins")),
    }


def measure(
    workload: Workload,
    python: str | None,
    engines: Sequence[str],
    rounds: int,
    folder: Path,
    *,
    quiet: bool = True,
) -> tuple[dict[str, list[Figures]], dict[str, str]]:
    """By engine, the figures of every round, each told as it comes; versions of peers."""
    work = workload.write(folder)
    names = engines if python else ()
    peers = {name: Peer(str(python), name, work, folder, quiet=quiet) for name in names}
    found: dict[str, list[Figures]] = {name: [] for name in ("batchwright", *peers)}
    try:
        for number in range(rounds):
            for name, results in found.items():
                if number >= SLOW.get(name, rounds):
                    continue
                figures = peers[name].answer() if name in peers else ours(work, folder)
                results.append(figures)
                shown = f"{rate(figures):,.0f}, {cpu_rate(figures):,.0f}"
                print(f"{workload.name} {name}: {shown}", file=sys.stderr, flush=True)
    finally:
        for one in peers.values():
            one.close()
    return found, {name: v for one in peers.values() for name, v in one.versions.items()}


def rate(figures: Figures) -> float:
    """Output tokens a second."""
    return float(figures["output_tokens"] / figures["seconds"])


def cpu_rate(figures: Figures) -> float:
    """Output tokens a second of CPU time."""
    return float(figures["output_tokens"] / figures["cpu_seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", help="Python of an environment with vLLM")
    parser.add_argument("--only", nargs="*", default=[w.name for w in WORKLOADS])
    parser.add_argument("--peers", nargs="*", default=PEERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--default-openmp", action="store_true", help="leave OpenMP of peers as it is by default"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write raw results there")
    arguments = parser.parse_args()
    record = Record(["torch", "transformers", "numba"], rounds=arguments.rounds)
    print(f"output tokens a second and a CPU second, medians of {arguments.rounds} rounds")
    print(f"{'':<29}{'a second':>9} {'(least, most)':<18}{'CPU':>9}  ours is, by CPU")
    for workload in WORKLOADS:
        if workload.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found, versions = measure(
                workload,
                arguments.peer_python,
                arguments.peers,
                arguments.rounds,
                Path(folder),
                quiet=not arguments.default_openmp,
            )
        record.add_versions({f"peer {name}": number for name, number in versions.items()})
        for engine, results in found.items():
            rounds = [{key: r[key] for key in KEPT if key in r} for r in results]
            record.add(workload=workload.name, engine=engine, rounds=rounds)
            print(_row(workload.name, engine, results, found["batchwright"]), flush=True)
        record.write(arguments.record)  # what there is, should a later one fail


KEPT = ("output_tokens", "seconds", "cpu_seconds", "steps", "shares", "limits")


def _row(workload: str, engine: str, results: list[Figures], ours: list[Figures]) -> str:
    rates = [rate(figures) for figures in results]
    median, cpu = statistics.median(rates), statistics.median(map(cpu_rate, results))
    base, base_cpu = statistics.median(map(rate, ours)), statistics.median(map(cpu_rate, ours))
    spread = f"({min(rates):,.0f}, {max(rates):,.0f})"
    ratio = "" if results is ours else f"{base / median:>6.2f}x{base_cpu / cpu:>6.2f}x"
    return f"{workload:<16}{engine:<13}{median:>9,.0f} {spread:<18}{cpu:>9,.0f} {ratio}"


if __name__ == "__main__":
    main()
