"""Plays workloads on both schedulers and reports where they decide differently.

``python -m differential.compare --seeds 0:1000`` (needs an environment with vLLM).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from itertools import zip_longest

import click
from attrs import define, evolve, frozen

from differential.minimise import minimised
from differential.ours import Ours
from differential.play import MAX_STEPS, Step, play
from differential.workload import Setup, Workload
from differential.workloads import FAMILIES, make

__all__ = ["Difference", "first_difference"]


@frozen
class Difference:
    """The first step in which two runs differ."""

    workload: Workload
    ours: str
    theirs: str
    before: str

    def __str__(self) -> str:
        name = f"{self.workload.family} {self.workload.seed}"
        return (
            f"--- {name}\n{self.workload.dumps()}\n"
            f"  before: {self.before}\n  ours:   {self.ours}\n  theirs: {self.theirs}"
        )


@define
class Tally:
    """Counts of the comparisons so far."""

    num_workloads: int = 0
    num_steps: int = 0
    num_preempted: int = 0
    num_with_preemptions: int = 0
    num_deliberate: int = 0
    num_different: int = 0

    def add(self, steps: list[Step]) -> None:
        preempted = sum(len(step.planned.preempted) for step in steps)
        self.num_workloads += 1
        self.num_steps += len(steps)
        self.num_preempted += preempted
        self.num_with_preemptions += bool(preempted)

    def __str__(self) -> str:
        share = self.num_with_preemptions / max(1, self.num_workloads)
        return (
            f"{self.num_workloads} workloads, {self.num_steps} steps, "
            f"{self.num_preempted} preemptions (in {share:.0%} of the workloads), "
            f"{self.num_deliberate} equal only under compat, {self.num_different} different"
        )


Player = Callable[[Workload], list[Step] | str]


def _played(side: Callable[[Setup], object], workload: Workload) -> list[Step] | str:
    """A run, or what it raised."""
    try:
        return play(workload, side(workload.setup))  # type: ignore[arg-type]
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"


def first_difference(
    workload: Workload, ours: Player, theirs: Player, tally: Tally | None = None
) -> Difference | None:
    """Compare two runs of a workload step by step; a run without end counts as one."""
    mine, other = ours(workload), theirs(workload)
    if isinstance(mine, str) or isinstance(other, str):
        texts = [run if isinstance(run, str) else "ran" for run in (mine, other)]
        return Difference(workload, *texts, "")
    if tally is not None:
        tally.add(mine)
    before = ""
    for left, right in zip_longest(mine, other):
        if left != right:
            return Difference(workload, str(left), str(right), before)
        before = str(left)
    if len(mine) >= MAX_STEPS:
        return Difference(workload, "no end", "no end", before)
    return None


def compared(workloads: Iterable[Workload], ours: Player, theirs: Player, *, shrink: bool) -> Tally:
    """Compare many, printing every difference."""
    tally = Tally()
    for workload in workloads:
        found = first_difference(workload, ours, theirs, tally)
        if found is None:
            continue
        if not workload.setup.compat and not first_difference(
            _under_compat(workload), ours, theirs
        ):
            tally.num_deliberate += 1
            continue
        tally.num_different += 1
        if shrink:
            small = minimised(workload, lambda w: first_difference(w, ours, theirs) is not None)
            found = first_difference(small, ours, theirs) or found
        click.echo(str(found))
    return tally


def _under_compat(workload: Workload) -> Workload:
    return evolve(workload, setup=evolve(workload.setup, compat=True))


@click.command()
@click.option("--seeds", default="0:50", help="FIRST:LAST, of every family.")
@click.option("--family", "families", multiple=True, help="Only these families.")
@click.option("--seconds", default=0.0, help="Stop after so many; 0: at the last seed.")
@click.option("--shrink/--no-shrink", default=True, help="Minimise what differs.")
@click.option("--most", default=5, help="Stop after so many differences.")
@click.option("--compat", is_flag=True, help="Under scheduler.compat from the start.")
def main(
    seeds: str, families: tuple[str, ...], seconds: float, shrink: bool, most: int, compat: bool
) -> None:
    """Compare workloads on Batchwright's and on vLLM's scheduler."""
    from differential.peer import Peer

    first, last = map(int, seeds.split(":"))
    started, total = time.monotonic(), Tally()
    for seed in range(first, last):
        workloads = [make(family, seed) for family in families or FAMILIES]
        tally = compared(
            map(_under_compat, workloads) if compat else workloads,
            lambda workload: _played(Ours, workload),
            lambda workload: _played(Peer, workload),
            shrink=shrink,
        )
        for name in Tally.__slots__:
            if name.startswith("num_"):
                setattr(total, name, getattr(total, name) + getattr(tally, name))
        if total.num_different >= most:
            break
        if seconds and time.monotonic() - started > seconds:
            break
    click.echo(f"seeds {first}:{seed + 1}: {total}")
    sys.exit(total.num_different > 0)


if __name__ == "__main__":
    main()
