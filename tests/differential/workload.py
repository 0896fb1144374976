"""A workload: what is configured, who comes and goes when, what the model answers."""

from __future__ import annotations

import json
from typing import Any

from attrs import asdict, evolve, field, frozen

__all__ = ["EOS", "Abort", "Job", "Setup", "Workload"]

EOS = 1
FIRST_PLAIN = 10
NUM_PLAIN = 31_991  # prime: different streams differ at every position


@frozen(kw_only=True)
class Setup:
    """The configuration of both schedulers.

    Args:
        threshold: Long-prefill threshold in tokens; 0: none.
        watermark: Share of the blocks.
        full_need: Whether an admission needs room for all known tokens.
        compat: Whether Batchwright is to match vLLM even where it means to do better.
    """

    block_size: int = 16
    num_blocks: int = 64
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 64
    max_num_scheduled_tokens: int | None = None
    max_model_len: int = 4096
    chunked_prefill: bool = True
    caching: bool = True
    policy: str = "fcfs"
    threshold: int = 0
    adaptive: bool = False
    watermark: float = 0.0
    full_need: bool = True
    compat: bool = False

    @property
    def num_slots(self) -> int:
        """Tokens that the pool holds; one block is reserved."""
        return (self.num_blocks - 1) * self.block_size


@frozen(kw_only=True)
class Job:
    """One request and the model's answers to it.

    Args:
        name: Its id; in order of insertion.
        step: Arrives before this step.
        prompt: (stream, number of tokens) one after the other: prompts that begin with
            the same pairs share that prefix.
        voice: Jobs with equal prompts and voices get equal answers.
        specials: (output index, token): where the model says EOS or a stop token.
        moment: When it arrived, for the policy.
        masked: Whether no token that ends is sampled before ``min_tokens``: samplers
            see to that.
    """

    name: str
    step: int = 0
    prompt: tuple[tuple[int, int], ...]
    max_tokens: int
    min_tokens: int = 0
    stops: tuple[int, ...] = ()
    ignore_eos: bool = False
    voice: int = 0
    specials: tuple[tuple[int, int], ...] = ()
    priority: int = 0
    moment: float = 0.0
    salt: str | None = None
    masked: bool = True

    @property
    def num_prompt_tokens(self) -> int:
        return sum(count for _, count in self.prompt)

    def prompt_token_ids(self) -> list[int]:
        return [
            FIRST_PLAIN + (stream * 1_000_003 + position * 7_919) % NUM_PLAIN
            for stream, count in self.prompt
            for position in range(count)
        ]

    def answer(self, index: int) -> int:
        """The token that is sampled as output number ``index``."""
        if index >= self.min_tokens or not self.masked:
            for where, token in self.specials:
                if where == index:
                    return token
        return FIRST_PLAIN + (self.voice * 999_983 + index * 104_729) % NUM_PLAIN


@frozen(kw_only=True)
class Abort:
    """A request is aborted.

    Args:
        name: Whose.
        step: In which step.
        computing: Whether while that step is computed, or else before it is planned.
    """

    name: str
    step: int
    computing: bool = False


@frozen(kw_only=True)
class Workload:
    """Everything that a run depends on.

    Args:
        resets: Before these steps the prefix cache is to be forgotten, if it can be.
        pauses: (first step, step after the last) of a time without admissions.
    """

    family: str = ""
    seed: int = 0
    setup: Setup = field(factory=Setup)
    jobs: tuple[Job, ...] = ()
    aborts: tuple[Abort, ...] = ()
    resets: tuple[int, ...] = ()
    pauses: tuple[tuple[int, int], ...] = ()

    @property
    def last_event(self) -> int:
        """The step before which the last of them comes or goes."""
        steps = [event.step for event in (*self.jobs, *self.aborts)]
        return max((*steps, *self.resets, *(end for _, end in self.pauses)), default=0)

    def without(self, names: frozenset[str]) -> Workload:
        """The same without some jobs."""
        return evolve(
            self,
            jobs=tuple(job for job in self.jobs if job.name not in names),
            aborts=tuple(abort for abort in self.aborts if abort.name not in names),
        )

    def dumps(self) -> str:
        """Lines of JSON, one a job, without defaults; ``loads`` reads them."""
        head = {"family": self.family, "seed": self.seed, "setup": _short(self.setup)}
        if self.resets or self.pauses:
            head |= {"resets": self.resets, "pauses": self.pauses}
        lines = [json.dumps(head)]
        lines += [json.dumps({"job": _short(job)}) for job in self.jobs]
        lines += [json.dumps({"abort": _short(abort)}) for abort in self.aborts]
        return "\n".join(lines)

    @classmethod
    def loads(cls, text: str) -> Workload:
        """Read what ``dumps`` wrote."""
        head, *rest = map(json.loads, text.splitlines())
        jobs = [_job(row["job"]) for row in rest if "job" in row]
        aborts = [Abort(**row["abort"]) for row in rest if "abort" in row]
        return cls(
            family=head["family"],
            seed=head["seed"],
            setup=Setup(**head["setup"]),
            jobs=tuple(jobs),
            aborts=tuple(aborts),
            resets=tuple(head.get("resets", ())),
            pauses=tuple((start, end) for start, end in head.get("pauses", ())),
        )


def _short(instance: Any) -> dict[str, Any]:
    """An instance as a dict, without what is as the class has it by default."""
    defaults = {a.name: a.default for a in type(instance).__attrs_attrs__}
    return {key: value for key, value in asdict(instance).items() if value != defaults[key]}


def _job(row: dict[str, Any]) -> Job:
    for key in ("prompt", "specials"):
        row[key] = tuple(tuple(pair) for pair in row.get(key, ()))
    return Job(**{**row, "stops": tuple(row.get("stops", ()))})
