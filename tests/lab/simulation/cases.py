"""Random configurations and arrivals, with a policy that acts on marks and alarms."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from batchwright.plugin import SchedulingPolicy
from batchwright.protocols import Arrival
from batchwright.testing import make_plugin
from batchwright.testing.requests import prompt_tokens
from batchwright.verdicts import Preempt

__all__ = ["ACTING", "random_arrivals", "random_config"]

COEFFICIENTS = {
    "base": 0.0103,
    "per_token": 2.57e-5,
    "per_context_token": 1.13e-6,
    "per_attention": 2.9e-8,
    "per_request": 1.7e-5,
}


class Acting(SchedulingPolicy):
    """First come, first served; a request that has decoded for a while loses its seat."""

    name = "acting"

    def setup(self) -> None:
        self._tired: dict[str, Any] = {}
        self._turn = 0

    def key(self, request):
        return request.arrival_time

    def account(self, request):
        return request.client

    def on_admit(self, request, hit, need):
        self.ctx.call_at_tokens(request, num_computed_tokens=request.num_computed_tokens + 11)
        self.ctx.call_at(self.ctx.clock.now() + 0.137)

    def on_tokens(self, request, payload):
        self._tired[request.request_id] = request

    def on_timer(self, payload):
        self._turn += 1

    def running_to_preempt(self, view):
        tired, self._tired = self._tired, {}
        for request in tired.values():
            if request in view.running:
                yield (
                    Preempt(request, keep_blocks=True)
                    if self._turn % 2
                    else Preempt(request, keep_blocks=False)
                )


ACTING = make_plugin(policy=[Acting])


def random_config(chance: random.Random, *, gates: bool = True) -> dict[str, Any]:
    """A configuration in which something happens: little memory, few seats, or much."""
    block_size = chance.choice((4, 8, 16))
    longest = 200
    num_blocks = chance.choice((longest // block_size + 3, 60, 400))
    num_blocks = max(num_blocks, longest // block_size + 3)
    listed: list[dict[str, Any]] = [{"use": "full-need"}] if chance.random() < 0.8 else []
    if chance.random() < 0.4:
        listed.append({"use": "watermark", "fraction": 0.05})
    if gates and chance.random() < 0.4:
        listed.append({"use": "hint"})
    limits = [{"use": "long-prefill", "threshold": 24}] if chance.random() < 0.3 else []
    policy = chance.choice(("fcfs", "fcfs", "priority", "acting"))
    return {
        "model": {"max_model_len": longest},
        "scheduler": {
            "policy": policy,
            "max_num_seqs": chance.choice((3, 8, 32)),
            "max_num_batched_tokens": chance.choice((33, 64, 256)),
            "pipeline_depth": chance.choice((1, 1, 1, 2)),
        },
        "kv": {
            "block_size": block_size,
            "num_blocks": num_blocks,
            "enable_prefix_caching": chance.random() < 0.7,
        },
        "gate": listed,
        "limit": limits,
        "estimator": {"linear": COEFFICIENTS},
    }


def random_arrivals(chance: random.Random, count: int = 40) -> Iterator[Arrival]:
    """Prompts that share prefixes, priorities, hints for the gate."""
    time = 0.0
    for number in range(count):
        time += chance.choice((0.0, 0.004, 0.03, 0.4))
        shared = prompt_tokens(f"family {chance.randrange(3)}", 60)[: chance.randrange(60)]
        own = prompt_tokens(f"own {number}", chance.randint(1, 60))
        hints = chance.choice(({}, {}, {"hold": 3}, {"stop": 2}))
        length = chance.choice((1, 2, 7, 20, 60))
        yield Arrival(
            time=time,
            prompt_token_ids=[*shared, 1000 + number, *own],
            num_output_tokens=length,
            max_tokens=max(1, length + chance.choice((-3, 0, 1, 30))),
            request_id=f"r{number}",
            priority=chance.randrange(3),
            client=chance.choice((None, "ada", "grace")),
            hints=hints,
        )
