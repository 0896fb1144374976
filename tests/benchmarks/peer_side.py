"""vLLM's V1 scheduler, driven without a model for a cost measurement.

It is set up as vLLM's ``EngineCore`` does it: the same classes, a frozen heap, environment
variables that are read once. Needs an environment with vLLM in it (``make bench-peers``
makes one).
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
from operator import attrgetter
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch
from vllm import envs
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.gc_utils import freeze_gc_heap
from vllm.utils.hashing import sha256, xxhash
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

__all__ = ["Peer"]

FIELDS_OF_PLAN = attrgetter(*SchedulerOutput.__dataclass_fields__)
HASHES = {"sha256": sha256, "xxh3-128": xxhash}
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 65_536,
    "max_position_embeddings": 131_072,
    "torch_dtype": "float32",
}


def _config(
    max_num_seqs: int, budget: int, num_blocks: int, policy: str, planned_ahead: bool
) -> VllmConfig:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(MODEL))
        model = ModelConfig(
            model=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=4096
        )
    scheduler = SchedulerConfig(
        max_model_len=4096, is_encoder_decoder=False, async_scheduling=False
    )
    scheduler = copy.copy(scheduler)
    scheduler.max_num_seqs, scheduler.policy = max_num_seqs, policy
    scheduler.max_num_batched_tokens = scheduler.max_num_scheduled_tokens = budget
    cache = CacheConfig(block_size=16, enable_prefix_caching=True)
    cache.num_gpu_blocks = num_blocks
    config = VllmConfig(model_config=model, scheduler_config=scheduler, cache_config=cache)
    config.scheduler_config.async_scheduling = planned_ahead  # a CPU's configuration drops it
    return config


class Peer:
    """One scheduler with one full-attention group, sha256, block size 16, statistics on.

    Args:
        planned_ahead: Plans a step before the last one is answered, as vLLM does by default
            on a GPU; on a CPU it does not.
    """

    name = "vllm"

    def __init__(
        self,
        *,
        max_num_seqs: int,
        budget: int,
        num_blocks: int,
        policy: str,
        hasher: str = "sha256",
        planned_ahead: bool = False,
    ) -> None:
        function = HASHES[hasher]
        init_none_hash(function)
        config = _config(max_num_seqs, budget, num_blocks, policy, planned_ahead)
        spec = FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=1, dtype=torch.float32)
        kind = config.scheduler_config.get_scheduler_cls()
        self.scheduler: Any = kind(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(
                num_blocks=num_blocks,
                kv_cache_tensors=[],
                kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
            ),
            structured_output_manager=StructuredOutputManager(config),
            block_size=16,
            log_stats=True,
        )
        self.scheduler.use_v2_model_runner = True  # as on a GPU: its plans cost less
        self._plain = SamplingParams()
        self._hasher = get_request_block_hasher(16, function)
        freeze_gc_heap()
        envs.enable_envs_cache()

    def add(self, name: str, prompt: list[int], max_tokens: int) -> None:
        params = SamplingParams(max_tokens=max_tokens, stop_token_ids=[3])
        params.update_from_generation_config({}, eos_token_id=2)
        self.scheduler.add_request(
            Request(
                request_id=name,
                prompt_token_ids=prompt,
                sampling_params=params,
                pooling_params=None,
                block_hasher=self._hasher,
            )
        )

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def schedule(self) -> Any:
        """Plan a step and read every field of the plan."""
        plan = self.scheduler.schedule()
        FIELDS_OF_PLAN(plan)
        cached = plan.scheduled_cached_reqs
        _ = (
            len(cached.req_ids),
            len(cached.new_block_ids),
            len(cached.num_computed_tokens),
            len(cached.num_output_tokens),
        )
        return plan

    def answer(self, plan: Any) -> ModelRunnerOutput:
        """One token wherever one is due."""
        live = self.scheduler.requests
        ids = list(plan.num_scheduled_tokens)
        rows = [[7] if live[i].num_computed_tokens >= live[i].num_tokens else [] for i in ids]
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=rows,
        )

    def update(self, plan: Any, output: ModelRunnerOutput) -> None:
        """Commit the answer and read the fields of the outputs, as an engine core sends them."""
        for outputs in self.scheduler.update_from_output(plan, output).values():
            _ = (len(outputs.outputs), outputs.finished_requests, outputs.scheduler_stats)

    def hash_prompt(self, prompt: list[int], salt: str) -> None:
        """Make a request of a prompt, which hashes its blocks."""
        Request(
            request_id="h",
            prompt_token_ids=prompt,
            sampling_params=self._plain,
            pooling_params=None,
            block_hasher=self._hasher,
            cache_salt=salt,
        )

    @property
    def num_waiting(self) -> int:
        return len(self.scheduler.waiting)

    def facts(self) -> dict[str, float]:
        """Counts that say what was measured."""
        return {"running": len(self.scheduler.running)}
