"""What a plugin costs on each path: 256 steady decodes, and a mixed load.

    python tests/benchmarks/plugin_cost.py

Microseconds of thread CPU time a step, as in ``scheduler_cost.py``, beside the defaults.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from ours_side import Ours
from scheduler_cost import Side, in_turn, mixed, steady

from batchwright.protocols import Control, Gate, Limit, Observer, SchedulingPolicy
from batchwright.verdicts import Admit


class Key(SchedulingPolicy):
    """A policy that orders those that wait."""

    name = "key"

    def key(self, request: Any) -> int:
        return int(request.num_prompt_tokens)


class RunningKey(SchedulingPolicy):
    """A policy that orders those that run."""

    name = "running-key"

    def running_key(self, request: Any) -> int:
        return int(request.num_output_tokens)


class Accounts(SchedulingPolicy):
    """A policy that names accounts."""

    name = "accounts"

    def account(self, request: Any) -> str:
        return str(request.request_id[-1])


class Candidate(Gate):
    """A gate that looks at every candidate."""

    name = "candidate"

    def candidate(self, request: Any, view: Any) -> Admit:
        return Admit()


class Watching(Control):
    """A control that is asked at every step."""

    name = "watching"

    def caps(self, view: Any) -> None:
        return None


class PrefillLimit(Limit):
    """A limit on grants over one token."""

    name = "prefill-limit"

    def grant(self, request: Any, num_tokens: int, view: Any) -> int:
        return num_tokens


class DecodeLimit(PrefillLimit):
    """A limit on every grant: nobody is carried any more."""

    name = "decode-limit"
    affects_decode = True


class EveryStep(Observer):
    """An observer of every step."""

    name = "every-step"

    def on_step(self, record: Any) -> None:
        pass


class EveryOutput(Observer):
    """An observer of every output."""

    name = "every-output"

    def on_outputs(self, outputs: Any) -> None:
        pass


PLUGINS: list[tuple[str, type | None]] = [
    ("the defaults", None),
    ("policy with key()", Key),
    ("policy with running_key()", RunningKey),
    ("policy with account()", Accounts),
    ("gate with candidate()", Candidate),
    ("control with caps()", Watching),
    ("limit on grants over one token", PrefillLimit),
    ("limit on decodes (affects_decode)", DecodeLimit),
    ("observer with on_step()", EveryStep),
    ("observer with on_outputs()", EveryOutput),
]


def measure(
    load: Any, plugins: Sequence[type | None], rounds: int = 1
) -> list[tuple[float, float]]:
    """Microseconds a step, and the share of decode grants that no visit decided, of each."""
    sides: list[Side] = [partial(Ours, component=plugin) for plugin in plugins]
    return [(a + b, side.carried_ratio()) for a, b, side in in_turn(load, sides, rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="each figure is their median")
    rounds = parser.parse_args().rounds
    logging.getLogger("batchwright").setLevel(logging.ERROR)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    names, plugins = zip(*PLUGINS, strict=True)
    loads = [partial(steady, num_running=256), mixed]
    columns = [measure(load, plugins, rounds) for load in loads]
    print(
        f"{'microseconds a step':34}", *(f"{head:>13} carried" for head in ("256 steady", "mixed"))
    )
    for name, *results in zip(names, *columns, strict=True):
        print(f"{name:34}", *(f"{cost:13.1f} {carried:7.0%}" for cost, carried in results))


if __name__ == "__main__":
    main()
