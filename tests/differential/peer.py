"""vLLM's V1 scheduler as the other side of the comparison, driven without a model.

Needs an environment with vLLM in it (see ``make_peer_venv.sh``); nothing else in this
folder imports it.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

import torch
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from differential.play import Grant, Planned, Updated
from differential.workload import EOS, Job, Setup

__all__ = ["Peer"]

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 32_768,
    "max_position_embeddings": 131_072,
    "torch_dtype": "float32",
}


@cache
def _base_config() -> VllmConfig:
    """One configuration, built as an engine would; each run changes a copy."""
    init_none_hash(sha256)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(MODEL))
        model = ModelConfig(
            model=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=4096
        )
    scheduler = SchedulerConfig(
        max_model_len=4096, is_encoder_decoder=False, async_scheduling=False
    )
    return VllmConfig(
        model_config=model,
        scheduler_config=scheduler,
        cache_config=CacheConfig(block_size=16, enable_prefix_caching=True),
    )


def _changed(instance: Any, **values: Any) -> Any:
    """A copy with some attributes set; what depends on them is set here too."""
    instance = copy.copy(instance)
    for name, value in values.items():
        setattr(instance, name, value)
    return instance


def _config(setup: Setup) -> VllmConfig:
    base = _base_config()
    return _changed(
        base,
        model_config=_changed(base.model_config, max_model_len=setup.max_model_len),
        cache_config=_changed(
            base.cache_config,
            block_size=setup.block_size,
            num_gpu_blocks=setup.num_blocks,
            enable_prefix_caching=setup.caching,
        ),
        scheduler_config=_changed(
            base.scheduler_config,
            max_num_seqs=setup.max_num_seqs,
            max_num_batched_tokens=setup.max_num_batched_tokens,
            max_num_scheduled_tokens=setup.max_num_scheduled_tokens,
            enable_chunked_prefill=setup.chunked_prefill,
            policy=setup.policy,
            long_prefill_token_threshold=setup.threshold,
            long_prefill_token_threshold_adaptive=setup.adaptive,
            watermark=setup.watermark,
            scheduler_reserve_full_isl=setup.full_need,
        ),
    )


@cache
def _observed(base: type[Scheduler]) -> type[Any]:
    """A scheduler of vLLM, and the order in which it preempts."""

    class Observed(base):  # type: ignore[misc, valid-type]
        preempted: list[str]

        def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
            self.preempted.append(request.request_id)
            super()._preempt_request(request, *args, **kwargs)

    return Observed


class Peer:
    """A vLLM scheduler with one full-attention group.

    Args:
        setup: The sizes of the run.
        base: The class of the scheduler.
        additional_config: vLLM's, for that class.
    """

    def __init__(
        self,
        setup: Setup,
        base: type[Scheduler] = Scheduler,
        additional_config: dict[str, Any] | None = None,
    ) -> None:
        spec = FullAttentionSpec(
            block_size=setup.block_size, num_kv_heads=1, head_size=1, dtype=torch.float32
        )
        config = _changed(_config(setup), additional_config=additional_config or {})
        self.scheduler = _observed(base)(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(
                num_blocks=setup.num_blocks,
                kv_cache_tensors=[],
                kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
            ),
            structured_output_manager=StructuredOutputManager(config),
            block_size=setup.block_size,
            log_stats=False,
        )
        self._hasher = get_request_block_hasher(setup.block_size, sha256) if setup.caching else None
        self._plan: Any = None

    @property
    def is_busy(self) -> bool:
        return bool(self.scheduler.requests)

    @property
    def _num_free(self) -> int:
        return int(self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    def add(self, job: Job) -> None:
        params = SamplingParams(
            temperature=0,
            max_tokens=job.max_tokens,
            min_tokens=job.min_tokens,
            stop_token_ids=list(job.stops),
            ignore_eos=job.ignore_eos,
        )
        params.update_from_generation_config({}, EOS)
        self.scheduler.add_request(
            Request(
                request_id=job.name,
                prompt_token_ids=job.prompt_token_ids(),
                sampling_params=params,
                pooling_params=None,
                arrival_time=job.moment,
                priority=job.priority,
                cache_salt=job.salt,
                block_hasher=self._hasher,
            )
        )

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def reset(self) -> None:
        self.scheduler.reset_prefix_cache()

    def pause(self, *, paused: bool) -> None:
        state = PauseState.PAUSED_NEW if paused else PauseState.UNPAUSED
        self.scheduler.set_pause_state(state)

    def schedule(self) -> Planned:
        self.scheduler.preempted = []
        self._plan = plan = self.scheduler.schedule()
        new = {row.req_id: row for row in plan.scheduled_new_reqs}
        cached = plan.scheduled_cached_reqs
        place = {name: index for index, name in enumerate(cached.req_ids)}
        grants = []
        for name, num_tokens in plan.num_scheduled_tokens.items():
            if name in new:
                row = new[name]
                computed, blocks, resumed = row.num_computed_tokens, row.block_ids, False
            else:
                index = place[name]
                resumed = name in cached.resumed_req_ids
                computed = cached.num_computed_tokens[index] if resumed else None
                blocks = cached.new_block_ids[index]
            block_ids = tuple(blocks[0]) if blocks else ()
            grants.append(Grant(name, num_tokens, block_ids, computed, resumed))
        return Planned(
            tuple(grants),
            tuple(self.scheduler.preempted),
            tuple(sorted(plan.finished_req_ids)),
            self._num_free,
        )

    def update(self, tokens: Mapping[str, Sequence[int]]) -> Updated:
        names = list(tokens)
        output = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[list(row) for row in tokens.values()],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        answers = self.scheduler.update_from_output(self._plan, output)
        ended = [
            (row.request_id, _how(row))
            for outputs in answers.values()
            for row in outputs.outputs
            if row.finish_reason is not None
        ]
        return Updated(tuple(ended), self._num_free)


def _how(row: Any) -> str:
    """Return the end of a request: eos, stop:TOKEN, length; anything else in full."""
    reason = str(row.finish_reason)
    if reason != "stop":
        return reason
    return "eos" if row.stop_reason is None else f"stop:{row.stop_reason}"
