"""The asynchronous variant decides what vLLM's own does, with a step in flight."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from batchwright_vllm.scheduler import AsyncScheduler
from harness import Bench
from vllm.v1.core.sched.async_scheduler import AsyncScheduler as VllmAsyncScheduler
from vllm.v1.outputs import ModelRunnerOutput

SEEDS = range(100)


def decisions(base: Any, seed: int) -> list[Any]:
    """Play a random workload; return the grants, preemptions and ends of each step."""
    chance = random.Random(seed)
    bench = Bench({}, base, num_blocks=chance.choice([14, 30, 65]), max_num_seqs=4)
    arrivals = sorted(
        (chance.randrange(40), f"r{i}", chance.randrange(1, 90), chance.randrange(1, 40))
        for i in range(12)
    )
    flight: deque[tuple[Any, list[str]]] = deque()
    taken: list[Any] = []
    for step in range(3000):
        while arrivals and arrivals[0][0] <= step:
            _, name, num_tokens, max_tokens = arrivals.pop(0)
            bench.add(name, num_tokens, max_tokens)
        bench.scheduler.preempted = []
        plan = bench.scheduler.schedule()
        names = list(plan.num_scheduled_tokens)
        taken.append((dict(plan.num_scheduled_tokens), list(bench.scheduler.preempted)))
        sampled = [n for n in names if not bench.scheduler.requests[n].is_prefill_chunk]
        flight.append((plan, sampled))
        if len(flight) == 2:
            taken.append(_update(bench, *flight.popleft()))
        if not arrivals and not bench.scheduler.requests:
            return taken + [_update(bench, *one) for one in flight]
    raise AssertionError("it does not end")


def _update(bench: Bench, plan: Any, sampled: list[str]) -> list[tuple[str, str]]:
    names = list(plan.num_scheduled_tokens)
    output = ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: index for index, name in enumerate(names)},
        sampled_token_ids=[[7] if name in sampled else [] for name in names],
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=[],
    )
    answers = bench.scheduler.update_from_output(plan, output)
    return [
        (one.request_id, str(one.finish_reason))
        for client in answers.values()
        for one in client.outputs
        if one.finish_reason is not None
    ]


@pytest.mark.parametrize("start", range(0, len(SEEDS), 20))
def test_decisions_are_those_of_the_asynchronous_scheduler(start: int) -> None:
    num_preempted = 0
    for seed in SEEDS[start : start + 20]:
        expected = decisions(VllmAsyncScheduler, seed)
        assert decisions(AsyncScheduler, seed) == expected, seed
        num_preempted += sum(len(step[1]) for step in expected if isinstance(step, tuple))
    assert num_preempted
