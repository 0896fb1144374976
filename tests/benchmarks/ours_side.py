"""Batchwright's scheduler, driven for a cost measurement."""

from __future__ import annotations

from typing import Any

from batchwright import ModelOutput, Request, SamplingParams
from batchwright.assembly import scheduler_from_config
from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.protocols import Component
from batchwright.testing import make_plugin
from batchwright_plugins.kv.block_table import BlockTable

__all__ = ["Ours"]


class Ours:
    """One scheduler under the default plugins, with the ``stats`` observer on.

    Args:
        component: A plugin's class to add to them, or to use in their place.
        planned_ahead: Plans a step before the last one is answered.
    """

    name = "batchwright"

    def __init__(
        self,
        *,
        max_num_seqs: int,
        budget: int,
        num_blocks: int,
        policy: str,
        hasher: str = "sha256",
        component: type[Component] | None = None,
        planned_ahead: bool = False,
    ) -> None:
        config: dict[str, Any] = {
            "model": {"max_model_len": 4096},
            "scheduler": {
                "max_num_seqs": max_num_seqs,
                "max_num_batched_tokens": budget,
                "policy": policy,
                "pipeline_depth": 2 if planned_ahead else 1,
            },
            "kv": {"num_blocks": num_blocks, "block_size": 16, "hasher": hasher},
            "gate": [{"use": "full-need"}],
            "observer": [{"use": "stats"}],
        }
        plugins = [_select(config, component)] if component else []
        self.scheduler = scheduler_from_config(config, plugins=plugins)
        self._plain = SamplingParams()
        self._hasher = self.scheduler.components.kv_parts[0]

    def add(self, name: str, prompt: list[int], max_tokens: int) -> None:
        self.scheduler.add_request(
            Request(
                request_id=name,
                prompt_token_ids=prompt,
                sampling_params=SamplingParams(max_tokens=max_tokens, stop_token_ids=(3,)),
                eos_token_id=2,
            )
        )

    def abort(self, name: str) -> None:
        self.scheduler.abort(name)

    def schedule(self) -> Any:
        """Plan a step and read every field of the plan."""
        plan = self.scheduler.schedule()
        cached = plan.scheduled_cached_reqs
        _ = (
            plan.step_id,
            len(plan.scheduled_new_reqs),
            len(cached.req_ids),
            len(cached.resumed_req_ids),
            len(cached.new_block_ids),
            len(cached.num_computed_tokens),
            len(cached.num_output_tokens),
            len(plan.num_scheduled_tokens),
            plan.total_num_scheduled_tokens,
            plan.scheduled_draft_token_ids,
            plan.preempted_req_ids,
            plan.finished_req_ids,
            plan.block_copies,
            plan.swap_outs,
            plan.swap_ins,
            plan.blocks_to_zero,
            plan.extras,
        )
        return plan

    def answer(self, plan: Any) -> ModelOutput:
        """One token wherever one is due."""
        live = self.scheduler.requests
        ids = list(plan.num_scheduled_tokens)
        rows = [[7] if live[i].num_computed_tokens >= live[i].num_tokens else [] for i in ids]
        return ModelOutput(ids, rows)

    def update(self, plan: Any, output: ModelOutput) -> None:
        """Commit the answer and read every field of the outputs."""
        outputs = self.scheduler.update_from_output(plan, output)
        _ = (
            outputs.step_id,
            len(outputs.req_ids),
            len(outputs.new_token_ids),
            len(outputs.finished),
            outputs.logprobs,
        )

    def hash_prompt(self, prompt: list[int], salt: str) -> None:
        """Make a request of a prompt and hash its blocks."""
        request = Request(
            request_id="h", prompt_token_ids=prompt, sampling_params=self._plain, cache_salt=salt
        )
        table = BlockTable(request.view, self._hasher, 16)
        table.hashes(len(prompt) // 16)

    @property
    def num_waiting(self) -> int:
        return self.scheduler.num_waiting

    def facts(self) -> dict[str, float]:
        """Counts that say what was measured; ``carried``: decodes that no visit decided."""
        stats = self.scheduler.components.observers[0]
        summary: dict[str, Any] = stats.summary()  # type: ignore[attr-defined]
        return {
            "running": self.scheduler.view.num_running,
            "carried": summary["decode_batch_ratio"],
            "prefix_hits": summary["prefix_hit_ratio"],
        }


def _select(config: dict[str, Any], component: type[Component]) -> object:
    """Select a class in a configuration; the plugin that offers it."""
    kind = next(kind for kind, base in COMPONENT_KINDS.items() if issubclass(component, base))
    if kind == "policy":
        config["scheduler"]["policy"] = component.name
    else:
        config.setdefault(kind, []).append({"use": component.name})
    return make_plugin(**{kind: [component]})
