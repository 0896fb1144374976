"""The cost of a plugin on each path: a decode batch of 256, and a mixed load.

    python tests/benchmarks/plugin_cost.py

Microseconds of thread CPU time a step, measured as in ``scheduler_cost.py``, beside the
defaults; the median of rounds in which all of them take turns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from ours_side import Ours
from records import Record
from scheduler_cost import in_turn, median, prepare
from scheduler_loads import STEPS, Cost, mixed, steady

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

    name = "pre_filter"

    def pre_filter(self, request: Any, view: Any) -> Admit:
        return Admit()


class Watching(Control):
    """A control that is asked at every step."""

    name = "watching"

    def caps(self, view: Any) -> None:
        return None


class PrefillLimit(Limit):
    """A limit on grants over one token."""

    name = "prefill-limit"

    def max_tokens(self, request: Any, num_tokens: int, view: Any) -> int:
        return num_tokens


class DecodeLimit(PrefillLimit):
    """A limit on every grant: no request is carried any more."""

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
    ("gate with pre_filter()", Candidate),
    ("control with caps()", Watching),
    ("limit on grants over one token", PrefillLimit),
    ("limit on decodes (affects_decode)", DecodeLimit),
    ("observer with on_step()", EveryStep),
    ("observer with on_outputs()", EveryOutput),
]


LOADS = {"256 steady": partial(steady, num_running=256), "mixed": mixed}


def measure(load: Any, plugins: Sequence[type | None], rounds: int = 1) -> list[list[Cost]]:
    """The costs of each plugin under a load, one a round."""
    return in_turn([partial(load, partial(Ours, component=p)) for p in plugins], rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="each figure is their median")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write raw results there")
    arguments = parser.parse_args()
    record = Record(["torch"], steps=STEPS, rounds=arguments.rounds)
    prepare()
    names, plugins = zip(*PLUGINS, strict=True)
    columns = [measure(load, plugins, arguments.rounds) for load in LOADS.values()]
    print(f"{'microseconds a step':34}", *(f"{head:>13} carried" for head in LOADS))
    for name, *results in zip(names, *columns, strict=True):
        carried = [costs[-1].facts["carried"] for costs in results]
        for load, costs, share in zip(LOADS, results, carried, strict=True):
            rounds = [round(cost.both, 2) for cost in costs]
            record.add(component=name, load=load, rounds=rounds, carried=share)
        cells = zip(map(median, results), carried, strict=True)
        print(f"{name:34}", *(f"{cost:13.1f} {share:7.0%}" for cost, share in cells))
    record.write(arguments.record)


if __name__ == "__main__":
    main()
