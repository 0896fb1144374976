"""vLLM's scheduler with components, driven without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from batchwright_vllm.scheduler import SyncScheduler
from vllm.sampling_params import SamplingParams
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request

from differential.peer import Peer
from differential.workload import Setup

__all__ = ["Bench"]


class Bench:
    """A scheduler of vLLM with the components of a configuration.

    Args:
        config: The tables of the TOML file.
        sizes: Fields of ``Setup``.
    """

    def __init__(self, config: Mapping[str, Any], base: Any = SyncScheduler, **sizes: Any) -> None:
        setup = attrs.evolve(Setup(), **{"num_blocks": 65, **sizes})
        peer = Peer(setup, base, {"batchwright": dict(config)})
        self.scheduler = peer.scheduler
        self.hasher = peer._hasher
        self.finished: dict[str, str] = {}
        self.outputs: dict[str, int] = {}
        self._stream = 0

    def add(
        self,
        name: str,
        num_tokens: int = 8,
        max_tokens: int = 4,
        *,
        priority: int = 0,
        arrival_time: float | None = None,
        prompt: list[int] | None = None,
        **extra: Any,
    ) -> None:
        """Add a request; prompts differ unless one is given."""
        self._stream += 1
        tokens = prompt or [10 + (self._stream * 1000 + i) % 30_000 for i in range(num_tokens)]
        params = SamplingParams(
            temperature=0, max_tokens=max_tokens, ignore_eos=True, extra_args=extra or None
        )
        self.scheduler.add_request(
            Request(
                request_id=name,
                prompt_token_ids=tokens,
                sampling_params=params,
                pooling_params=None,
                arrival_time=arrival_time,
                priority=priority,
                block_hasher=self.hasher,
            )
        )

    def step(self) -> dict[str, int]:
        """Plan and compute a step; return the scheduled tokens."""
        plan = self.scheduler.schedule()
        names = list(plan.num_scheduled_tokens)
        is_done = {name: not self.scheduler.requests[name].is_prefill_chunk for name in names}
        output = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[[7] if is_done[name] else [] for name in names],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        for client in self.scheduler.update_from_output(plan, output).values():
            for one in client.outputs:
                self.outputs[one.request_id] = self.outputs.get(one.request_id, 0) + len(
                    one.new_token_ids
                )
                if one.finish_reason is not None:
                    self.finished[one.request_id] = str(one.finish_reason)
        return dict(plan.num_scheduled_tokens)

    def steps(self, count: int) -> list[dict[str, int]]:
        return [self.step() for _ in range(count)]

    def drain(self, limit: int = 500) -> list[dict[str, int]]:
        """Take steps until no request is left."""
        taken = []
        while self.scheduler.requests:
            assert len(taken) < limit, list(self.scheduler.requests)
            taken.append(self.step())
        return taken

    def order(self, limit: int = 500) -> list[str]:
        """Return the requests in the order of their first tokens."""
        return list(dict.fromkeys(name for step in self.drain(limit) for name in step))
