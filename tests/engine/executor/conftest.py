"""A driver that makes plans by hand, and small models to drive."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import define, field

from batchwright.messages import CachedRequestData, ModelOutput, NewRequestData, SchedulerOutput
from batchwright.protocols.attention import AttentionBackend
from batchwright.protocols.model import ModelInfo, ModelSettings
from batchwright.sampling_params import SamplingParams
from batchwright_engine.attention.torch_paged import TorchAttention
from batchwright_engine.executor.torch_executor import TorchExecutor, TorchExecutorOptions

torch.set_num_threads(2)

VOCAB = 97


@define
class Live:
    """A request as the driver knows it."""

    prompt: list[int]
    params: SamplingParams
    outputs: list[int] = field(factory=list)
    blocks: list[int] = field(factory=list)
    computed: int = 0
    known: bool = False
    preempted: bool = False

    @property
    def num_new_tokens(self) -> int:
        return len(self.prompt) + len(self.outputs) - self.computed


@define
class PlanDriver:
    """Writes plans for an executor, step by step, as the test says.

    Blocks are handed out in random order; block 0 never is.
    """

    executor: TorchExecutor
    info: ModelInfo
    block_size: int
    free: list[int]
    live: dict[str, Live] = field(factory=dict)
    finished: list[str] = field(factory=list)
    preempted: list[str] = field(factory=list)
    step_id: int = 0

    def add(
        self,
        req_id: str,
        prompt: list[int],
        *,
        share: str | None = None,
        outputs: list[int] | None = None,
        **params: Any,
    ) -> None:
        """Add a request; it may share the whole blocks of another one's prompt."""
        request = Live(prompt, SamplingParams(**params), list(outputs or ()))
        if share is not None:
            other = self.live[share]
            same = 0
            while same < len(prompt) - 1 and prompt[same] == other.prompt[same]:
                same += 1
            blocks = min(same // self.block_size, len(other.blocks))
            request.blocks = other.blocks[:blocks]
            request.computed = blocks * self.block_size
        self.live[req_id] = request

    def preempt(self, req_id: str) -> None:
        request = self.live[req_id]
        self.free[:0] = request.blocks
        request.blocks, request.computed, request.preempted = [], 0, True
        self.preempted.append(req_id)

    def finish(self, req_id: str) -> Live:
        request = self.live.pop(req_id)
        self.free[:0] = request.blocks
        self.finished.append(req_id)
        return request

    def plan(
        self, grants: dict[str, int], drafts: dict[str, list[int]] | None = None
    ) -> SchedulerOutput:
        drafts = drafts or {}
        new, cached = [], CachedRequestData()
        for req_id, granted in grants.items():
            request = self.live[req_id]
            blocks = self._blocks(request, granted)
            request.blocks = request.blocks + blocks
            if not request.known:
                new.append(
                    NewRequestData(
                        req_id,
                        array("I", request.prompt),
                        request.params,
                        list(request.blocks),
                        request.computed,
                        array("I", request.outputs),
                    )
                )
                request.known, request.preempted = True, False
                continue
            cached.req_ids.append(req_id)
            if request.preempted:
                cached.resumed_req_ids.append(req_id)
                request.preempted, blocks = False, list(request.blocks)
            cached.new_block_ids.append(blocks or None)
            cached.num_computed_tokens.append(request.computed)
            cached.num_output_tokens.append(len(request.outputs))
        plan = SchedulerOutput(
            step_id=self.step_id,
            scheduled_new_reqs=new,
            scheduled_cached_reqs=cached,
            num_scheduled_tokens=grants,
            total_num_scheduled_tokens=sum(grants.values()),
            scheduled_draft_token_ids=drafts,
            preempted_req_ids=self.preempted,
            finished_req_ids=self.finished,
        )
        self.step_id += 1
        self.preempted, self.finished = [], []
        return plan

    def give_blocks(self, req_id: str, granted: int) -> None:
        """Hand out a request's blocks before its tokens are planned."""
        request = self.live[req_id]
        request.blocks = request.blocks + self._blocks(request, granted)

    def _blocks(self, request: Live, granted: int) -> list[int]:
        need = -(-(request.computed + granted) // self.block_size) - len(request.blocks)
        return [self.free.pop() for _ in range(need)]

    def step(
        self, grants: dict[str, int], drafts: dict[str, list[int]] | None = None
    ) -> ModelOutput:
        """Plan, execute, and take the tokens over."""
        output = self.executor.run(self.plan(grants, drafts))
        assert sorted(output.req_ids) == sorted(grants)
        for req_id, tokens in zip(output.req_ids, output.sampled_token_ids, strict=True):
            request = self.live[req_id]
            request.computed += grants[req_id]
            if drafts and req_id in drafts and tokens:
                request.computed -= len(drafts[req_id]) + 1 - len(tokens)
            request.outputs += tokens
        return output

    def run(self, counts: dict[str, int], chunk: int = 10**6) -> dict[str, list[int]]:
        """Step until every named request has that many outputs."""
        while True:
            grants = {
                req_id: min(self.live[req_id].num_new_tokens, chunk)
                for req_id, count in counts.items()
                if len(self.live[req_id].outputs) < count
            }
            if not grants:
                return {r: self.live[r].outputs[:n] for r, n in counts.items()}
            self.step(grants)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Saves a small random model of some architecture, once each."""
    saved: dict[str, Path] = {}

    def make(kind: str, **changes: Any) -> Path:
        name = "-".join([kind, *(f"{k}={v}" for k, v in sorted(changes.items()))])
        if name not in saved:
            folder = tmp_path_factory.mktemp("model")
            config = _config(kind, changes)
            from transformers import AutoModelForCausalLM

            torch.manual_seed(11)
            model = AutoModelForCausalLM.from_config(config)
            for parameter in model.parameters():
                # Untrained weights make every next token alike; larger ones do not.
                parameter.data.mul_(3.0 if parameter.dim() > 1 else 1.0)
            model.save_pretrained(folder)
            saved[name] = folder
        return saved[name]

    return make


def _config(kind: str, changes: dict[str, Any]) -> Any:
    from transformers import CONFIG_MAPPING

    values = {
        "vocab_size": VOCAB,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "head_dim": 8,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    return CONFIG_MAPPING[kind](**{**values, **changes})


@pytest.fixture
def make_driver() -> Callable[..., PlanDriver]:
    """Loads a model into an executor and gives it a KV cache."""

    def make(
        folder: Path | str,
        *,
        block_size: int = 4,
        num_blocks: int = 400,
        dtype: str = "float32",
        seed: int = 0,
        max_model_len: int | None = None,
        backend: type[AttentionBackend] = TorchAttention,
    ) -> PlanDriver:
        executor = TorchExecutor(TorchExecutorOptions(device="cpu", threads=2), None)  # type: ignore[arg-type]
        attention = backend(backend.Options(), None)  # type: ignore[arg-type]
        settings = ModelSettings(
            path=str(folder),
            dtype=dtype,
            seed=seed,
            attention=[attention],
            max_model_len=max_model_len,
        )
        info = executor.load(settings)
        executor.allocate_kv(num_blocks, block_size)
        free = list(range(1, num_blocks))
        random.Random(5).shuffle(free)
        return PlanDriver(executor, info, block_size, free)

    return make
