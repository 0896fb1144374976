"""What a step costs: steady decode, a mixed load, block hashing; ours, or beside a peer.

    python tests/benchmarks/scheduler_cost.py            # ours alone
    python tests/benchmarks/scheduler_cost.py --peer     # both, in turn, in one process

Numbers are microseconds of thread CPU time, the mean over 320 steps after a warm-up (the
mean, since block work comes in waves), on one core, with garbage collection off, less what
reading the clock twice takes; of several rounds, in which the sides take turns, the median.
Only the ratios of one run mean anything on another machine.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

STEPS = 320
WARM_UP = 48

Side = Callable[..., Any]


class Stopwatch:
    """Adds up thread CPU time by name, less what timing takes by itself."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._calls: dict[str, int] = {}
        self._own_seconds = 0.0

    def time(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        begin = time.thread_time()
        result = call(*arguments)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.thread_time() - begin
        self._calls[name] = self._calls.get(name, 0) + 1
        return result

    def calibrate(self, calls: int = 10_000) -> None:
        """Find out what timing a call that does nothing takes."""
        for _ in range(calls):
            self.time("nothing", _nothing)
        self._own_seconds = self.seconds.pop("nothing") / self._calls.pop("nothing")

    def per_step(self, name: str, steps: int = STEPS) -> float:
        """Microseconds."""
        own = self._own_seconds * self._calls.get(name, 0)
        return (self.seconds.get(name, 0.0) - own) / steps * 1e6


def _nothing() -> None:
    pass


def step(side: Any, watch: Stopwatch) -> None:
    plan = watch.time("schedule", side.schedule)
    output = side.answer(plan)
    watch.time("update", side.update, plan, output)


def measured(run: Callable[[Stopwatch], None]) -> Stopwatch:
    gc.collect()
    gc.disable()
    try:
        watch = Stopwatch()
        watch.calibrate()
        run(watch)
    finally:
        gc.enable()
    return watch


def steady(make: Side, num_running: int) -> tuple[float, float, Any]:
    """All requests decode; prompts of 512 + i mod 16 tokens."""
    side = make(
        max_num_seqs=num_running,
        budget=max(8192, num_running),
        num_blocks=1000 + 70 * num_running,
        policy="fcfs",
    )
    for i in range(num_running):
        prompt = [(i * 7919 + j) % 60_000 + 10 for j in range(512 + i % 16)]
        side.add(f"r{i}", prompt, 3000)
    scrap = Stopwatch()
    while side.num_waiting:
        step(side, scrap)
    for _ in range(WARM_UP):
        step(side, scrap)
    watch = measured(lambda watch: [step(side, watch) for _ in range(STEPS)] and None)
    return watch.per_step("schedule"), watch.per_step("update"), side


def mixed(make: Side) -> tuple[float, float, Any]:
    """256 run; two prompts a step of 1000 tokens that share 512, 128 output tokens each.

    The first figure includes making the requests and adding them.
    """
    side = make(max_num_seqs=256, budget=8192, num_blocks=40_000, policy="fcfs")
    chance = random.Random(0)
    shared = [chance.randrange(10, 60_000) for _ in range(512)]
    arrivals = _arrivals(shared, chance)

    def turn(watch: Stopwatch) -> None:
        for _ in range(2):
            name, prompt = next(arrivals)
            watch.time("schedule", side.add, name, prompt, 128)
        step(side, watch)

    scrap = Stopwatch()
    for _ in range(128 + WARM_UP):
        turn(scrap)
    watch = measured(lambda watch: [turn(watch) for _ in range(STEPS)] and None)
    return watch.per_step("schedule"), watch.per_step("update"), side


def _arrivals(shared: list[int], chance: random.Random) -> Iterator[tuple[str, list[int]]]:
    number = 0
    while True:
        yield f"m{number}", shared + [chance.randrange(10, 60_000) for _ in range(488)]
        number += 1


def waiting(make: Side, num_waiting: int, policy: str) -> tuple[float, Any]:
    """8 run and so many wait."""
    side = make(max_num_seqs=8, budget=8192, num_blocks=2000, policy=policy)
    for i in range(8 + num_waiting):
        side.add(f"w{i}", [11, 12, 13, 14], 3000)
    scrap = Stopwatch()
    for _ in range(WARM_UP):
        step(side, scrap)
    watch = measured(lambda watch: [step(side, watch) for _ in range(STEPS)] and None)
    return watch.per_step("schedule") + watch.per_step("update"), side


def aborts(make: Side, num_waiting: int, policy: str) -> float:
    """Microseconds an abort, half of those that wait, in random order."""
    side = make(max_num_seqs=8, budget=8192, num_blocks=2000, policy=policy)
    names = [f"a{i}" for i in range(num_waiting)]
    for name in names:
        side.add(name, [11, 12, 13, 14], 3000)
    random.Random(0).shuffle(names)
    gone = names[: num_waiting // 2]
    watch = measured(lambda watch: [watch.time("abort", side.abort, n) for n in gone] and None)
    return watch.per_step("abort", len(gone))


def hashing(make: Side, hasher: str) -> float:
    """Microseconds for a prompt of 1,000 tokens with a salt, the request's making included."""
    side = make(max_num_seqs=8, budget=8192, num_blocks=2000, policy="fcfs", hasher=hasher)
    chance = random.Random(0)
    prompts = [[chance.randrange(10, 60_000) for _ in range(1000)] for _ in range(STEPS)]
    side.hash_prompt(prompts[0], "warm")

    def run(watch: Stopwatch) -> None:
        for prompt in prompts:
            watch.time("hash", side.hash_prompt, prompt, "salt")

    return measured(run).per_step("hash")


def memory(make: Side, num_waiting: int = 100_000) -> float:
    """Bytes a waiting request of 1,000 prompt tokens takes, its prompt included."""
    side = make(max_num_seqs=8, budget=8192, num_blocks=2000, policy="fcfs")
    before = _resident()
    for i in range(num_waiting):
        side.add(f"m{i}", [(i + j) % 60_000 for j in range(1000)], 128)
    return (_resident() - before) / num_waiting


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def in_turn(measure: Callable[[Side], Any], sides: list[Side], rounds: int) -> list[Any]:
    """Of each side the result that costs the median of all rounds."""
    results: list[list[Any]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, found in zip(sides, results, strict=True):
            found.append(measure(side))
    return [sorted(found, key=_cost)[rounds // 2] for found in results]


def _cost(result: Any) -> float:
    return result if isinstance(result, float) else float(result[0] + result[1])


def row(what: str, ours: float, peer: float | None, digits: int = 1) -> str:
    cells = [f"{what:52}", f"{ours:10.{digits}f}"]
    if peer is not None:
        cells += [f"{peer:10.{digits}f}", f"1/{peer / ours:.1f}".rjust(9)]
    return " ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="store_true", help="measure vLLM's scheduler too")
    parser.add_argument("--rounds", type=int, default=5, help="each figure is their median")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    logging.getLogger("batchwright").setLevel(logging.ERROR)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from ours_side import Ours

    sides: list[Side] = [Ours]
    if arguments.peer:
        from peer_side import Peer

        sides.append(Peer)
    names = [side.name for side in sides]  # type: ignore[attr-defined]
    ratio = ["ratio".rjust(9)] if arguments.peer else []
    print("microseconds a step".ljust(52), *(name.rjust(10) for name in names), *ratio)
    for hasher in ("sha256", "xxh3-128"):
        costs = in_turn(partial(hashing, hasher=hasher), sides, rounds)
        print(row(f"blocks of 1,000 prompt tokens, {hasher}", costs[0], [*costs[1:], None][0]))
    for number in (1, 64, 256, 1024):
        results = in_turn(partial(steady, num_running=number), sides, rounds)
        _print(f"steady decode, {number} running", results)
        print(f"{'':4}carried without a visit: {results[0][2].carried_ratio():.1%}")
    results = in_turn(mixed, sides, rounds)
    _print("mixed, 256 running, 2 arrivals a step", results)
    print(f"{'':4}carried without a visit: {results[0][2].carried_ratio():.1%}")
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:  # nothing freed before
        gib = fresh.submit(memory, Ours).result() * 100_000 / 2**30
    print(row("GiB for 100,000 waiting requests of 1,000 tokens", gib, None, digits=2))
    for policy in ("fcfs", "priority"):
        few, many = (waiting(Ours, count, policy)[0] for count in (100, 20_000))
        print(row(f"{policy}: 8 running, 100 waiting", few, None))
        print(row(f"{policy}: 8 running, 20,000 waiting ({many / few:.2f}x)", many, None))
        small, large = (aborts(Ours, count, policy) for count in (2_000, 20_000))
        print(row(f"{policy}: an abort of 20,000 ({large / small:.2f}x of 2,000)", large, None))


def _print(what: str, results: list[tuple[float, float, Any]]) -> None:
    schedule = [result[0] for result in results]
    update = [result[1] for result in results]
    peers = [*schedule[1:], None][0], [*update[1:], None][0]
    both = [a + b for a, b in zip(schedule, update, strict=True)]
    print(row(what, both[0], [*both[1:], None][0]))
    print(row("    schedule()", schedule[0], peers[0]))
    print(row("    update_from_output()", update[0], peers[1]))


if __name__ == "__main__":
    main()
