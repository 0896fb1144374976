"""Families of random workloads; a family and a seed give one workload, always the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import evolve, frozen

from differential.workload import EOS, Abort, Job, Setup, Workload

__all__ = ["FAMILIES", "Recipe", "make"]

Span = tuple[int, int]
STOPS = (2, 3)


@frozen(kw_only=True)
class Recipe:
    """The base of the workloads of a family: spans and probabilities.

    Args:
        pool: Usable blocks, as a multiple of what the largest job needs.
        bursts: Arrivals come together in so many groups; 0: each by itself.
        depth: Levels of a tree of shared prefixes.
        twins: Probability that a job repeats an earlier one's prompt.
        moments: Different arrival times; 0: all different.
        outgrow: Probability that max_model_len cuts the outputs short.
        cap: Probability of a max_num_scheduled_tokens of its own.
    """

    block_sizes: Sequence[int] = (2, 4, 8, 16)
    jobs: Span = (4, 12)
    prompt: Span = (1, 60)
    outputs: Span = (1, 24)
    spread: int = 16
    bursts: int = 0
    budget: Span = (16, 128)
    seqs: Span = (2, 12)
    pool: tuple[float, float] = (1.0, 4.0)
    depth: int = 0
    twins: float = 0.1
    salts: int = 0
    priorities: int = 1
    moments: int = 0
    threshold: float = 0.0
    adaptive: float = 0.0
    watermarks: Sequence[float] = (0.0,)
    ends: float = 0.0
    aborts: float = 0.0
    outgrow: float = 0.1
    cap: float = 0.1
    policies: Sequence[str] = ("fcfs",)
    caching: float = 1.0
    chunking: float = 1.0
    full_need: float = 1.0
    resets: int = 0
    pauses: bool = False


TIGHT = (1.0, 1.6)

FAMILIES: dict[str, Recipe] = {
    "uniform": Recipe(),
    "bursty": Recipe(bursts=3, spread=40, jobs=(6, 16)),
    "long-prompts": Recipe(prompt=(100, 500), budget=(32, 200), jobs=(3, 8)),
    "shared-prefixes": Recipe(depth=4, twins=0.3, jobs=(6, 16), pool=(1.0, 3.0)),
    "pressure": Recipe(pool=TIGHT, outputs=(8, 40), jobs=(4, 10), prompt=(1, 40)),
    "pressure-shared": Recipe(pool=TIGHT, outputs=(8, 32), depth=3, twins=0.3),
    "steady": Recipe(
        jobs=(10, 30), outputs=(30, 110), pool=(3.0, 16.0), seqs=(8, 32), budget=(48, 256)
    ),
    "tiny-budgets": Recipe(budget=(1, 12), prompt=(1, 30), outputs=(1, 16)),
    "thresholds": Recipe(threshold=1.0, prompt=(10, 120), jobs=(1, 8)),
    "adaptive-thresholds": Recipe(threshold=1.0, adaptive=1.0, prompt=(10, 120)),
    "watermark": Recipe(watermarks=(0.01, 0.05, 0.1, 0.2, 0.3), pool=(1.0, 2.5)),
    "priorities": Recipe(policies=("priority",), priorities=3, pool=(1.0, 2.0)),
    "priority-ties": Recipe(
        policies=("priority",), priorities=2, moments=2, pool=TIGHT, outputs=(8, 30)
    ),
    "planned-victims": Recipe(
        policies=("priority",),
        priorities=4,
        pool=TIGHT,
        spread=8,
        budget=(6, 20),
        seqs=(4, 8),
        prompt=(20, 60),
        outputs=(1, 12),
        block_sizes=(2, 4),
        threshold=1.0,
        full_need=0.1,
    ),
    "aborts": Recipe(aborts=0.6, pool=(1.0, 2.0), outputs=(4, 30)),
    "endings": Recipe(ends=0.8, outputs=(4, 40), pool=(1.0, 2.0)),
    "salts": Recipe(salts=2, depth=2, twins=0.4, pool=(1.0, 2.0)),
    "no-caching": Recipe(caching=0.0, pool=(1.0, 2.0)),
    "no-chunking": Recipe(chunking=0.0, pool=(1.0, 2.0)),
    "no-full-need": Recipe(full_need=0.0, pool=TIGHT, prompt=(10, 120), budget=(8, 64)),
    "model-length": Recipe(outgrow=1.0, pool=(1.0, 2.0)),
    "pauses": Recipe(pauses=True, pool=TIGHT, outputs=(6, 30)),
    "resets": Recipe(
        resets=20, bursts=3, spread=90, jobs=(3, 8), outputs=(1, 8), pool=(1.0, 2.0), twins=0.5
    ),
    "everything": Recipe(
        jobs=(2, 16),
        prompt=(1, 150),
        outputs=(1, 40),
        spread=30,
        budget=(4, 200),
        pool=(1.0, 2.5),
        depth=3,
        twins=0.3,
        salts=1,
        priorities=3,
        moments=3,
        threshold=0.3,
        adaptive=0.4,
        watermarks=(0.0, 0.0, 0.05, 0.2),
        ends=0.3,
        aborts=0.2,
        outgrow=0.3,
        policies=("fcfs", "priority"),
        caching=0.8,
        chunking=0.8,
        full_need=0.7,
    ),
}


def make(family: str, seed: int) -> Workload:
    """The workload of a family and a seed."""
    chance = random.Random(f"{family}/{seed}")
    recipe = FAMILIES[family]
    jobs = _jobs(chance, recipe)
    setup = _setup(chance, recipe, jobs)
    aborts = [
        Abort(name=job.name, step=job.step + chance.randint(0, 30), computing=chance.random() < 0.3)
        for job in jobs
        if chance.random() < recipe.aborts
    ]
    start = chance.randint(0, recipe.spread)
    return Workload(
        family=family,
        seed=seed,
        setup=setup,
        jobs=tuple(jobs),
        aborts=tuple(aborts),
        resets=tuple(range(0, 6 * recipe.resets, 6)),
        pauses=((start, start + chance.randint(1, 8)),) if recipe.pauses else (),
    )


def _setup(chance: random.Random, recipe: Recipe, jobs: list[Job]) -> Setup:
    block_size = chance.choice(recipe.block_sizes)
    lengths = [job.num_prompt_tokens + job.max_tokens for job in jobs]
    longest = max(lengths) + chance.randint(0, 20)
    if chance.random() < recipe.outgrow:
        prompts = max(job.num_prompt_tokens for job in jobs)
        longest = chance.randint(prompts + 1, max(prompts + 1, longest))
    # The last output is never written, so that a job needs a slot less than its length.
    largest = max(min(length, longest) - 1 for length in lengths)
    usable = -(-largest // block_size) * chance.uniform(*recipe.pool)
    chunked = chance.random() < recipe.chunking
    budget = chance.randint(*recipe.budget)
    if not chunked:
        budget = max(budget, longest)
    seqs = min(chance.randint(*recipe.seqs), budget)
    setup = Setup(
        block_size=block_size,
        num_blocks=int(usable) + 1,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        max_model_len=longest,
        chunked_prefill=chunked,
        caching=chance.random() < recipe.caching,
        policy=chance.choice(recipe.policies),
        watermark=chance.choice(recipe.watermarks),
        full_need=chance.random() < recipe.full_need,
    )
    if chunked and budget > seqs and chance.random() < recipe.cap:
        setup = evolve(setup, max_num_scheduled_tokens=chance.randint(seqs, budget))
    if chance.random() < recipe.threshold:
        setup = evolve(
            setup,
            threshold=chance.randint(1, max(1, min(longest, budget) // 2)),
            adaptive=chance.random() < recipe.adaptive,
        )
    return setup


def _jobs(chance: random.Random, recipe: Recipe) -> list[Job]:
    count = chance.randint(*recipe.jobs)
    steps = sorted(_steps(chance, recipe, count))
    jobs: list[Job] = []
    for index, step in enumerate(steps):
        jobs.append(_job(chance, recipe, index, step, jobs))
    return jobs


def _steps(chance: random.Random, recipe: Recipe, count: int) -> list[int]:
    if not recipe.bursts:
        return [chance.randint(0, recipe.spread) for _ in range(count)]
    bursts = [chance.randint(0, recipe.spread) for _ in range(recipe.bursts)]
    return [chance.choice(bursts) for _ in range(count)]


def _job(chance: random.Random, recipe: Recipe, index: int, step: int, earlier: list[Job]) -> Job:
    max_tokens = chance.randint(*recipe.outputs)
    prompt, voice = _prompt(chance, recipe, index), index
    if earlier and chance.random() < recipe.twins:
        twin = chance.choice(earlier)
        prompt, voice = twin.prompt, chance.choice((twin.voice, index))
    job = Job(
        name=f"r{index:02}",
        step=step,
        prompt=prompt,
        max_tokens=max_tokens,
        voice=voice,
        priority=chance.randrange(recipe.priorities),
        moment=float(chance.randrange(recipe.moments) if recipe.moments else index),
        salt=chance.choice((None, *map(str, range(recipe.salts)))),
    )
    return _with_ends(chance, job) if chance.random() < recipe.ends else job


def _prompt(chance: random.Random, recipe: Recipe, index: int) -> tuple[tuple[int, int], ...]:
    """A path down the tree of shared prefixes, and a tail of its own."""
    length = chance.randint(*recipe.prompt)
    path = 0
    prompt: list[tuple[int, int]] = []
    for level in range(chance.randint(0, recipe.depth)):
        path = path * 2 + 1 + chance.randrange(2)
        # Of any length: prefixes end on block boundaries and beside them.
        prompt.append((1000 + path, 3 + (path * 7) % 23))
        if level == 0:
            length = max(1, length // 2)
    if not prompt or chance.random() < 0.9:
        prompt.append((index, length))
    return tuple(prompt)


def _with_ends(chance: random.Random, job: Job) -> Job:
    """Let the model say EOS and stop tokens at some outputs, obeyed or not."""
    specials = [
        (chance.randrange(job.max_tokens), chance.choice((EOS, EOS, *STOPS)))
        for _ in range(chance.randint(1, 3))
    ]
    return evolve(
        job,
        specials=tuple(specials),
        stops=tuple(chance.sample(STOPS, chance.randint(0, 2))),
        ignore_eos=chance.random() < 0.3,
        min_tokens=chance.choice((0, 0, chance.randint(0, job.max_tokens))),
    )
