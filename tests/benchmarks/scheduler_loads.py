"""Loads that a scheduler is measured under, and the stopwatch that does it."""

from __future__ import annotations

import gc
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import Factory, frozen

STEPS = 320
WARM_UP = 48

Side = Callable[..., Any]


@frozen
class Cost:
    """Microseconds of one measurement.

    Args:
        schedule: A step in ``schedule()``, or whatever else was measured.
        update: A step in ``update_from_output()``.
        facts: What the side counted meanwhile.
    """

    schedule: float
    update: float = 0.0
    facts: dict[str, float] = Factory(dict)

    @property
    def both(self) -> float:
        return self.schedule + self.update


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

    def per_step(self, name: str, steps: int) -> float:
        """Microseconds."""
        own = self._own_seconds * self._calls.get(name, 0)
        return (self.seconds.get(name, 0.0) - own) / steps * 1e6


def _nothing() -> None:
    pass


class Drive:
    """A side on its way: each step is planned, answered and taken up.

    Args:
        side: The side.
        depth: Steps that are planned before the first of them is taken up.

    Attributes:
        num_planned: Requests in all plans so far.
    """

    def __init__(self, side: Any, depth: int = 1) -> None:
        self.side = side
        self.num_planned = 0
        self._depth = depth
        self._in_flight: deque[tuple[Any, Any]] = deque()

    def step(self, watch: Stopwatch) -> None:
        plan = watch.time("schedule", self.side.schedule)
        self.num_planned += len(plan.num_scheduled_tokens)
        self._in_flight.append((plan, self.side.answer(plan)))
        if len(self._in_flight) == self._depth:
            watch.time("update", self.side.update, *self._in_flight.popleft())


def made(make: Side, **options: Any) -> Any:
    """A side, once all that came before it is gone."""
    gc.unfreeze()
    gc.collect()
    return make(**options)


def measured(run: Callable[[Stopwatch], object]) -> Stopwatch:
    watch = Stopwatch()
    watch.calibrate()
    run(watch)
    return watch


def repeat(turn: Callable[[Stopwatch], None], steps: int) -> Callable[[Stopwatch], None]:
    """A run of so many turns."""

    def run(watch: Stopwatch) -> None:
        for _ in range(steps):
            turn(watch)

    return run


def per_step(drive: Drive, turn: Callable[[Stopwatch], None]) -> Cost:
    """The cost of turns, each with a step."""
    before = drive.num_planned
    watch = measured(repeat(turn, STEPS))
    facts = {"planned": (drive.num_planned - before) / STEPS, **drive.side.facts()}
    return Cost(watch.per_step("schedule", STEPS), watch.per_step("update", STEPS), facts)


def steady(make: Side, num_running: int, depth: int = 1) -> Cost:
    """All requests decode; prompts of 512 + i mod 16 tokens."""
    ahead = {"planned_ahead": True} if depth > 1 else {}
    side = made(
        make,
        max_num_seqs=num_running,
        budget=max(8192, num_running),
        num_blocks=1000 + 70 * num_running,
        policy="fcfs",
        **ahead,
    )
    for i in range(num_running):
        prompt = [(i * 7919 + j) % 60_000 + 10 for j in range(512 + i % 16)]
        side.add(f"r{i}", prompt, 3000)
    drive, scrap = Drive(side, depth), Stopwatch()
    while side.num_waiting:
        drive.step(scrap)
    repeat(drive.step, WARM_UP)(scrap)
    return per_step(drive, drive.step)


def mixed(make: Side) -> Cost:
    """256 run; two prompts a step of 1000 tokens that share 512, 128 output tokens each.

    The first figure includes making the requests and adding them.
    """
    side = made(make, max_num_seqs=256, budget=8192, num_blocks=40_000, policy="fcfs")
    chance = random.Random(0)
    shared = [chance.randrange(10, 60_000) for _ in range(512)]
    arrivals, drive = _arrivals(shared, chance), Drive(side)

    def turn(watch: Stopwatch) -> None:
        for _ in range(2):
            name, prompt = next(arrivals)
            watch.time("schedule", side.add, name, prompt, 128)
        drive.step(watch)

    repeat(turn, 128 + WARM_UP)(Stopwatch())
    return per_step(drive, turn)


def _arrivals(shared: list[int], chance: random.Random) -> Iterator[tuple[str, list[int]]]:
    number = 0
    while True:
        yield f"m{number}", shared + [chance.randrange(10, 60_000) for _ in range(488)]
        number += 1


def waiting(make: Side, num_waiting: int, policy: str) -> Cost:
    """8 run and so many wait."""
    side = made(make, max_num_seqs=8, budget=8192, num_blocks=2000, policy=policy)
    for i in range(8 + num_waiting):
        side.add(f"w{i}", [11, 12, 13, 14], 3000)
    drive = Drive(side)
    repeat(drive.step, WARM_UP)(Stopwatch())
    return per_step(drive, drive.step)


def aborts(make: Side, num_waiting: int, policy: str) -> Cost:
    """Microseconds an abort, half of those that wait, in random order."""
    side = made(make, max_num_seqs=8, budget=8192, num_blocks=2000, policy=policy)
    names = [f"a{i}" for i in range(num_waiting)]
    for name in names:
        side.add(name, [11, 12, 13, 14], 3000)
    random.Random(0).shuffle(names)
    gone = names[: num_waiting // 2]
    watch = measured(lambda watch: [watch.time("abort", side.abort, n) for n in gone])
    return Cost(watch.per_step("abort", len(gone)))


def hashing(make: Side, hasher: str) -> Cost:
    """Microseconds for a prompt of 1,000 tokens with a salt, the request's making included."""
    options = {"max_num_seqs": 8, "budget": 8192, "num_blocks": 2000, "policy": "fcfs"}
    side = made(make, hasher=hasher, **options)
    chance = random.Random(0)
    prompts = [[chance.randrange(10, 60_000) for _ in range(1000)] for _ in range(STEPS)]
    side.hash_prompt(prompts[0], "warm")
    watch = measured(
        lambda watch: [watch.time("hash", side.hash_prompt, p, "salt") for p in prompts]
    )
    return Cost(watch.per_step("hash", STEPS))


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
