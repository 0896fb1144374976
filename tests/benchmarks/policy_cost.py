"""The cost of a step under each policy: 256 running, 1,000 or 20,000 waiting, beside fcfs.

    python tests/benchmarks/policy_cost.py                 # all of them
    python tests/benchmarks/policy_cost.py srpt fair       # some, and fcfs

*Steady*: 256 requests decode, the others wait, nothing changes. *Busy*: two requests arrive,
two end and two are admitted at every step, with prompts of 64 tokens that share 32 with a
hundredth of the others, 64 clients, and deadlines. Microseconds of thread CPU time a step,
adding the arrivals included: the median of five means over 64 steps a round, of several rounds
in which the policies take turns. Only the ratios of one run mean anything.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import scheduler_loads
from records import Record
from scheduler_cost import prepare
from scheduler_loads import Stopwatch, made, measured, repeat

from batchwright import ModelOutput, Request, SamplingParams, Scheduler, VirtualClock
from batchwright.plugin_manager import PluginManager

NUM_RUNNING = 256
NUM_PARTS = 5
NEVER = 1e9
OPTIONS: dict[str, dict[str, Any]] = {
    "edf": {"targets": {"chat": 100.0, "batch": 1000.0}, "prefill_time": 1e-4},
    "lpm": {"max_wait": NEVER},
    "mlfq": {"max_wait": NEVER},
    "priority": {"preempts": True},
    "session": {"max_wait": NEVER},
    "srpt": {"max_wait": NEVER},
    "window": {"size": 1.0, "fairness": 1.0},
}
"""Options under which a policy does all that it can: requests that wait too long would be
served as they came, and ``priority`` that displaces no request asks for nothing."""
BUSY_OPTIONS: dict[str, dict[str, Any]] = {"mlfq": {"quantum": 128}}
"""More of them where things are to happen: every request is demoted once."""


class Side:
    """One scheduler under a policy, its requests, and a clock that arrivals move."""

    def __init__(self, policy: str, options: dict[str, Any]) -> None:
        self.clock = VirtualClock()
        config = {
            "model": {"max_model_len": 4096},
            "scheduler": {
                "max_num_seqs": NUM_RUNNING,
                "max_num_batched_tokens": 8192,
                "policy": policy,
            },
            "policy": {policy: options},
            "kv": {"num_blocks": 40_000, "block_size": 16},
            "observer": [{"use": "stats"}],
        }
        self.scheduler = Scheduler.from_config(config, clock=self.clock)
        self._chance = random.Random(0)
        self._number = 0

    def add(self, *, length: int = 3000, prompt: int = 64) -> None:
        """Add a request, 10 ms after the last one."""
        self.clock.advance(0.01)
        number, chance = self._number, self._chance
        self._number += 1
        tokens = [10 + number % 100] * 32 + [1000 + number, *[1] * (prompt - 33)]
        self.scheduler.add_request(
            Request(
                request_id=f"r{number}",
                prompt_token_ids=tokens,
                sampling_params=SamplingParams(max_tokens=length),
                client=f"client {number % 64}",
                group=f"group {number % 500}",
                slo_class=("chat", "batch")[number % 2],
                priority=chance.randrange(8),
            )
        )

    def step(self, watch: Stopwatch) -> None:
        """Plan, answer, update."""
        scheduler = self.scheduler
        plan = watch.time("step", scheduler.schedule)
        ids, live = list(plan.num_scheduled_tokens), scheduler.requests
        rows = [[7] if live[i].num_new_tokens <= 0 else [] for i in ids]
        watch.time("step", scheduler.update_from_output, plan, ModelOutput(ids, rows))

    def carried_ratio(self) -> float:
        """Share of decode grants that no visit decided."""
        (stats,) = self.scheduler.components.observers
        return float(stats.summary()["decode_batch_ratio"])  # type: ignore[attr-defined]


def steady(policy: str, options: dict[str, Any], num_waiting: int) -> tuple[list[float], Side]:
    """Microseconds a step in which nothing changes."""
    side, scrap = made(Side, policy=policy, options=options), Stopwatch()
    for _ in range(NUM_RUNNING):
        side.add()
    while side.scheduler.num_waiting:
        side.step(scrap)
    for _ in range(num_waiting):
        side.add()
    return _measured(side, scrap, side.step)


def busy(policy: str, options: dict[str, Any], num_waiting: int) -> tuple[list[float], Side]:
    """Microseconds a step with two arrivals, two admissions and two ends."""
    options = {**options, **BUSY_OPTIONS.get(policy, {})}
    side, scrap = made(Side, policy=policy, options=options), Stopwatch()
    lengths = random.Random(1)

    def arrive(watch: Stopwatch) -> None:
        length = lengths.randrange(64, 192)
        watch.time("step", lambda: side.add(length=length, prompt=lengths.randrange(40, 88)))

    while side.scheduler.view.num_running < NUM_RUNNING:  # two by two, so that they end so
        arrive(scrap)
        arrive(scrap)
        side.step(scrap)
    for _ in range(num_waiting):
        arrive(scrap)

    def turn(watch: Stopwatch) -> None:
        arrive(watch)
        arrive(watch)
        side.step(watch)

    return _measured(side, scrap, turn)


def _measured(side: Side, scrap: Stopwatch, turn: Any) -> tuple[list[float], Side]:
    """The mean of each part of the steps."""
    repeat(turn, scheduler_loads.WARM_UP)(scrap)
    steps = scheduler_loads.STEPS // NUM_PARTS
    watches = [measured(repeat(turn, steps)) for _ in range(NUM_PARTS)]
    return [watch.per_step("step", steps) for watch in watches], side


def policies() -> list[str]:
    """All that ship, fcfs first."""
    found = PluginManager.discover().registrations("policy")
    names = [r.name for r in found if r.distribution == "batchwright"]
    return ["fcfs", *(name for name in names if name != "fcfs")]


LOADS = [(work, count) for work in (steady, busy) for count in (1000, 20_000)]
Measured = dict[tuple[str, Any], tuple[list[float], list[float]]]
"""By policy and load, the cost of each part of each round (microseconds), and carried shares."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policies", nargs="*", help="default: all that ship")
    parser.add_argument("--rounds", type=int, default=3, help="policies take turns so often")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write raw results there")
    arguments = parser.parse_args()
    record = Record(
        ["torch"],
        parts=NUM_PARTS,
        steps=scheduler_loads.STEPS // NUM_PARTS,
        rounds=arguments.rounds,
    )
    prepare()
    names = list(dict.fromkeys(["fcfs", *(arguments.policies or policies())]))
    found: Measured = {(name, load): ([], []) for name in names for load in LOADS}
    for _ in range(arguments.rounds):
        for (name, (work, count)), (parts, shares) in found.items():
            costs, side = work(name, OPTIONS.get(name, {}), count)
            parts += [round(cost, 2) for cost in costs]
            shares.append(side.carried_ratio())
    for (name, (work, count)), (parts, shares) in found.items():
        load = f"{work.__name__}, {count:,} wait"
        record.add(policy=name, load=load, rounds=parts, carried=min(shares))
    _print(names, found)
    record.write(arguments.record)


def _print(names: list[str], found: Measured) -> None:
    heads = [f"{work.__name__} {count:,}" for work, count in LOADS]
    print("policy".ljust(10), *(head.rjust(16) for head in heads), "carried".rjust(9))
    costs = {place: statistics.median(parts) for place, (parts, _) in found.items()}
    for name in names:
        cells = [
            f"{costs[name, load]:8.1f} {costs[name, load] / costs['fcfs', load]:5.2f}x"
            for load in LOADS
        ]
        carried = min(min(found[name, load][1]) for load in LOADS)
        print(name.ljust(10), *(c.rjust(16) for c in cells), f"{carried:8.1%}")


if __name__ == "__main__":
    main()
