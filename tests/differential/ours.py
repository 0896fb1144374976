"""Batchwright's scheduler as one side of the comparison, through its public interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchwright import ModelOutput, Request, SamplingParams, Scheduler, VirtualClock
from differential.play import Grant, Planned, Updated
from differential.workload import EOS, Job, Setup

__all__ = ["Ours", "config_of"]


def config_of(setup: Setup) -> dict[str, Any]:
    """A setup as a configuration."""
    scheduler: dict[str, Any] = {
        "policy": setup.policy,
        "max_num_seqs": setup.max_num_seqs,
        "max_num_batched_tokens": setup.max_num_batched_tokens,
        "enable_chunked_prefill": setup.chunked_prefill,
    }
    if setup.max_num_scheduled_tokens is not None:
        scheduler["max_num_scheduled_tokens"] = setup.max_num_scheduled_tokens
    if setup.compat:
        scheduler["compat"] = "vllm-0.32"
    gates: list[dict[str, Any]] = []
    if setup.full_need:
        gates.append({"use": "full-need"})
    if setup.watermark:
        need = "full" if setup.full_need else "step"
        gates.append({"use": "watermark", "fraction": setup.watermark, "need": need})
    limit = {
        "use": "long-prefill", "threshold": setup.threshold, "adaptive": setup.adaptive
    }  # fmt: skip
    return {
        "model": {"max_model_len": setup.max_model_len},
        "scheduler": scheduler,
        "kv": {
            "block_size": setup.block_size,
            "num_blocks": setup.num_blocks,
            "enable_prefix_caching": setup.caching,
        },
        "gate": gates,
        "limit": [limit] if setup.threshold else [],
    }


class Ours:
    """A Batchwright scheduler."""

    def __init__(self, setup: Setup, scheduler: Scheduler | None = None) -> None:
        self.scheduler = scheduler or Scheduler.from_config(config_of(setup), clock=VirtualClock())
        self._plan: Any = None

    @property
    def is_busy(self) -> bool:
        return bool(self.scheduler.requests)

    def add(self, job: Job) -> None:
        self.scheduler.add_request(
            Request(
                request_id=job.name,
                prompt_token_ids=job.prompt_token_ids(),
                sampling_params=SamplingParams(
                    max_tokens=job.max_tokens,
                    min_tokens=job.min_tokens,
                    stop_token_ids=job.stops,
                    ignore_eos=job.ignore_eos,
                ),
                eos_token_id=EOS,
                arrival_time=job.moment,
                priority=job.priority,
                cache_salt=job.salt,
            )
        )

    def abort(self, name: str) -> None:
        self.scheduler.abort(name)

    def reset(self) -> None:
        self.scheduler.reset_prefix_cache()

    def pause(self, *, paused: bool) -> None:
        if paused:
            self.scheduler.pause()
        else:
            self.scheduler.resume()

    def schedule(self) -> Planned:
        self._plan = plan = self.scheduler.schedule()
        new = {row.req_id: row for row in plan.scheduled_new_reqs}
        cached = plan.scheduled_cached_reqs
        place = {name: index for index, name in enumerate(cached.req_ids)}
        resumed = set(cached.resumed_req_ids)
        grants = []
        for name, num_tokens in plan.num_scheduled_tokens.items():
            if name in new:
                row = new[name]
                grants.append(
                    Grant(name, num_tokens, tuple(row.block_ids), row.num_computed_tokens)
                )
                continue
            index = place[name]
            block_ids = tuple(cached.new_block_ids[index] or ())
            came = cached.num_computed_tokens[index] if name in resumed else None
            grants.append(Grant(name, num_tokens, block_ids, came, name in resumed))
        return Planned(
            tuple(grants),
            tuple(plan.preempted_req_ids),
            tuple(sorted(plan.finished_req_ids)),
            self.scheduler.kv_manager.num_free_blocks,
        )

    def update(self, tokens: Mapping[str, Sequence[int]]) -> Updated:
        output = ModelOutput(list(tokens), [list(row) for row in tokens.values()])
        outputs = self.scheduler.update_from_output(self._plan, output)
        ended = [
            (name, _how(finish.reason, finish.detail))
            for name, finish in outputs.finished.items()
            if finish.reason != "abort"
        ]
        return Updated(tuple(ended), self.scheduler.kv_manager.num_free_blocks)


def _how(reason: str, detail: str) -> str:
    """Return the end of a request: eos, stop:TOKEN, length; anything else in full."""
    if detail == "eos":
        return "eos"
    if detail.startswith("stop_token:"):
        return detail.replace("stop_token", "stop")
    if detail in ("max_tokens", "max_model_len"):
        return reason
    return f"{reason}({detail})".replace(" ", "_")
