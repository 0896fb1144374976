"""Shrinks a workload while something about it stays true."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import evolve

from differential.workload import Job, Setup, Workload

__all__ = ["minimised"]

MAX_TRIALS = 400


def minimised(
    workload: Workload, holds: Callable[[Workload], bool], max_trials: int = MAX_TRIALS
) -> Workload:
    """The smallest workload found for which a condition still holds.

    Args:
        workload: For which it holds.
        holds: The condition, e.g. that two schedulers differ.
        max_trials: Workloads that are tried at most.
    """
    trials = 0
    improved = True
    while improved:
        improved = False
        for smaller in _smaller(workload):
            trials += 1
            if trials > max_trials:
                return workload
            if holds(smaller):
                workload, improved = smaller, True
                break
    return workload


def _smaller(workload: Workload) -> Iterator[Workload]:
    """Workloads that are one step simpler, boldest first."""
    names = [job.name for job in workload.jobs]
    size = len(names) // 2
    while size:
        for start in range(0, len(names), size):
            gone = frozenset(names[start : start + size])
            if len(gone) < len(names):
                yield workload.without(gone)
        size //= 2
    for index in range(len(workload.aborts)):
        kept = workload.aborts[:index] + workload.aborts[index + 1 :]
        yield evolve(workload, aborts=kept)
    if workload.resets or workload.pauses:
        yield evolve(workload, resets=(), pauses=())
    for setup in _simpler_setups(workload.setup):
        yield evolve(workload, setup=setup)
    for index, job in enumerate(workload.jobs):
        for simpler in _simpler_jobs(job):
            jobs = (*workload.jobs[:index], simpler, *workload.jobs[index + 1 :])
            yield evolve(workload, jobs=jobs)


def _simpler_setups(setup: Setup) -> Iterator[Setup]:
    plain = Setup()
    for name in ("threshold", "adaptive", "watermark", "max_num_scheduled_tokens"):
        if getattr(setup, name) != getattr(plain, name):
            yield evolve(setup, **{name: getattr(plain, name)})


def _simpler_jobs(job: Job) -> Iterator[Job]:
    if job.specials:
        yield evolve(job, specials=(), stops=(), min_tokens=0, ignore_eos=False)
    if job.salt is not None:
        yield evolve(job, salt=None)
    if job.step:
        yield evolve(job, step=job.step // 2)
    if len(job.prompt) > 1:
        yield evolve(job, prompt=job.prompt[1:])
    if job.max_tokens > 1:
        fewer = job.max_tokens // 2
        yield evolve(job, max_tokens=fewer, min_tokens=min(job.min_tokens, fewer))
    stream, count = job.prompt[-1]
    if count > 1:
        yield evolve(job, prompt=(*job.prompt[:-1], (stream, count // 2)))
