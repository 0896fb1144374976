"""Plays a workload on one scheduler and writes down what it decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import Factory, define, frozen

from differential.workload import Job, Workload

__all__ = ["Grant", "Planned", "Side", "Step", "Updated", "play"]

MAX_STEPS = 4_000


@frozen
class Grant:
    """Scheduled tokens of one request in a step.

    Args:
        name: Whose.
        num_tokens: Granted tokens.
        block_ids: New blocks; of an admitted request its whole table.
        admitted: Tokens computed already when it is admitted, or None if it ran before.
        resumed: Whether it is admitted after a preemption.
    """

    name: str
    num_tokens: int
    block_ids: tuple[int, ...] = ()
    admitted: int | None = None
    resumed: bool = False

    def __str__(self) -> str:
        text = f"{self.name}:{self.num_tokens}"
        if self.admitted is not None:
            text += f"{'*' if self.resumed else '@'}{self.admitted}"
        return text + (f"+{_span(self.block_ids)}" if self.block_ids else "")


@frozen
class Planned:
    """A plan: grants and preemptions in order, who is told to have gone, free blocks."""

    grants: tuple[Grant, ...] = ()
    preempted: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    num_free: int = 0


@frozen
class Updated:
    """Results of an update: ends in order, as (name, how), and free blocks."""

    ended: tuple[tuple[str, str], ...] = ()
    num_free: int = 0


@frozen
class Step:
    """One step, to be compared; as text it is one line."""

    number: int
    planned: Planned
    updated: Updated

    def __str__(self) -> str:
        plan, update = self.planned, self.updated
        parts = [
            *map(str, plan.grants),
            *(f"!{name}" for name in plan.preempted),
            *(f"-{name}" for name in plan.gone),
            f"~{plan.num_free}",
            *(f"{name}={how}" for name, how in update.ended),
            f"~{update.num_free}",
        ]
        return f"{self.number} " + " ".join(parts)


class Side(Protocol):
    """One of the schedulers that are compared."""

    def add(self, job: Job) -> None: ...

    def abort(self, name: str) -> None: ...

    def reset(self) -> None: ...

    def pause(self, *, paused: bool) -> None: ...

    def schedule(self) -> Planned: ...

    def update(self, tokens: Mapping[str, Sequence[int]]) -> Updated: ...

    @property
    def is_busy(self) -> bool:
        """True if any request lives."""
        ...


@define
class _Life:
    """A request as its caller could know it from the plans alone."""

    job: Job
    num_outputs: int = 0
    num_computed: int = 0

    def sample(self) -> list[int]:
        """Return the sampled tokens of a request: one once it has caught up."""
        if self.num_computed < self.job.num_prompt_tokens + self.num_outputs:
            return []
        token = self.job.answer(self.num_outputs)
        self.num_outputs += 1
        return [token]


@define
class _Model:
    """Answers plans, knowing nothing but them."""

    lives: dict[str, _Life] = Factory(dict)

    def compute(self, plan: Planned) -> dict[str, list[int]]:
        tokens = {}
        for grant in plan.grants:
            life = self.lives[grant.name]
            if grant.admitted is not None:
                life.num_computed = grant.admitted
            life.num_computed += grant.num_tokens
            tokens[grant.name] = life.sample()
        return tokens


def play(workload: Workload, side: Side, max_steps: int = MAX_STEPS) -> list[Step]:
    """Play a workload to its end, or for so many steps."""
    model = _Model({job.name: _Life(job) for job in workload.jobs})
    steps: list[Step] = []
    for number in range(max_steps):
        for job in workload.jobs:
            if job.step == number:
                side.add(job)
        _abort(workload, side, number, computing=False)
        _switch(workload, side, number)
        if number > workload.last_event and not side.is_busy:
            break
        plan = side.schedule()
        tokens = model.compute(plan)
        _abort(workload, side, number, computing=True)
        steps.append(Step(number, plan, side.update(tokens)))
    return steps


def _abort(workload: Workload, side: Side, step: int, *, computing: bool) -> None:
    for abort in workload.aborts:
        if (abort.step, abort.computing) == (step, computing):
            side.abort(abort.name)


def _switch(workload: Workload, side: Side, step: int) -> None:
    """Apply the calls to the scheduler before a step."""
    for start, end in workload.pauses:
        if step in (start, end):
            side.pause(paused=step == start)
    if step in workload.resets:
        side.reset()


def _span(block_ids: Sequence[int]) -> str:
    """Block ids with runs shortened: 3..7,9."""
    runs: list[list[int]] = []
    for block_id in block_ids:
        if runs and block_id == runs[-1][-1] + 1:
            runs[-1].append(block_id)
        else:
            runs.append([block_id])
    return ",".join(
        f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs
    )
