"""Writes the recorded runs anew from vLLM's scheduler.

``python -m differential.record`` (needs an environment with vLLM).
"""

from __future__ import annotations

from collections.abc import Iterator

import click
from attrs import evolve

from differential.deliberate import DELIBERATE
from differential.golden import Golden, lines_of, stored
from differential.ours import Ours
from differential.peer import Peer
from differential.play import Step, play
from differential.workload import Workload
from differential.workloads import FAMILIES, make

NUM_SEEDS = 24
PICKED = (
    # The tokens of a victim are scheduled for another request.
    ("planned-victims", 34),
    ("planned-victims", 45),
    # One block more or less decides, and one that counts only while something runs.
    ("watermark", 1),
    ("watermark", 21),
)
"""Runs in which something rare happens."""

Run = tuple[Workload, list[Step]]


def _num_preempted(run: Run) -> int:
    return sum(len(step.planned.preempted) for step in run[1])


def _num_hit(run: Run) -> int:
    return sum(grant.admitted or 0 for step in run[1] for grant in step.planned.grants)


def _runs(family: str) -> list[Run]:
    """The shorter half of a family's first runs."""
    workloads = [make(family, seed) for seed in range(NUM_SEEDS)]
    runs = [(workload, play(workload, Peer(workload.setup))) for workload in workloads]
    return sorted(runs, key=lambda run: len(run[1]))[: NUM_SEEDS // 2]


def _chosen(family: str) -> Iterator[Run]:
    """The two with most preemptions, and of the others that with the longest hits."""
    runs = sorted(_runs(family), key=_num_preempted, reverse=True)
    yield from runs[:2]
    yield max(runs[2:], key=_num_hit)


def _golden(workload: Workload, steps: list[Step]) -> Golden:
    """A record; under ``compat`` if Batchwright means to do better in this run."""
    mine = lines_of(play(workload, Ours(workload.setup), len(steps) + 1))
    if mine != lines_of(steps):
        workload = evolve(workload, setup=evolve(workload.setup, compat=True))
    return Golden.of(workload, steps)


@click.command()
def main() -> None:
    """Rewrite all of them."""
    workloads = [make(*picked) for picked in PICKED]
    workloads += [case.workload for case in DELIBERATE if case.matched]
    runs = [run for family in FAMILIES for run in _chosen(family)]
    runs += [(workload, play(workload, Peer(workload.setup))) for workload in workloads]
    goldens = [_golden(*run) for run in runs]
    for path in stored():
        path.unlink()
    for golden in goldens:
        golden.write()
        if golden.workload.setup.compat:
            click.echo(f"{golden.name}: under compat")
    click.echo(f"{len(goldens)} runs recorded")


if __name__ == "__main__":
    main()
