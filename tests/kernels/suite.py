"""Attention kernels against dense attention in float64: small here, at full size on CUDA.

Not collected by itself: ``tests/engine/attention/test_kernels.py`` runs it in a process
of its own under Triton's interpreter, and ``make gpu-check`` on a GPU.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve

from batchwright import SamplingParams
from batchwright.protocols.attention import LayerCall
from batchwright.testing.attention import (
    Case,
    Shape,
    check_attention,
    check_copies,
    dense_attention,
    make_batch,
)
from batchwright.testing.conformance import AttentionConformance
from batchwright_engine import Engine
from batchwright_engine.attention.deferred import DeferredAttention
from batchwright_engine.attention.paged_cache import PagedCache
from batchwright_engine.attention.torch_paged import TorchAttention, TorchAttentionOptions
from batchwright_engine.attention.torch_varlen import TorchVarlenAttention
from batchwright_engine.attention.triton_paged import TritonAttention, TritonAttentionOptions
from batchwright_engine.attention.xformers_paged import XformersAttention, XformersAttentionOptions

IS_SMALL = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_SMALL else "cuda"
NUM_CASES = 2  # on a GPU, each compiles kernels of its own


class Sizes:
    """From what random cases are drawn: small enough to be interpreted, or as in use."""

    requests = 3 if IS_SMALL else 16
    computed = 20 if IS_SMALL else 2000
    granted = 4 if IS_SMALL else 128
    kv_heads = (1, 2) if IS_SMALL else (1, 2, 4, 8)
    groups = (1, 2, 3) if IS_SMALL else (1, 2, 3, 4, 7, 8)
    head_sizes = (64,) if IS_SMALL else (64, 80, 96, 128, 256)
    block_sizes = (16, 32) if IS_SMALL else (16, 32, 64, 256)
    windows = (None, 5, 19) if IS_SMALL else (None, 128, 1024)
    dtypes = ("float32", "float16") if IS_SMALL else ("float32", "float16", "bfloat16")


def shapes(draw: random.Random, kind: str) -> list[Shape]:
    """Requests of a step: decodes, chunks and whole prompts, or a mixture."""

    def shape() -> Shape:
        chosen = kind if kind != "mixed" else draw.choice(("decodes", "chunks", "prompts"))
        computed = 0 if chosen == "prompts" else draw.randint(1, Sizes.computed)
        granted = 1 if chosen == "decodes" else draw.randint(2, Sizes.granted)
        return Shape(computed, granted)

    return [shape() for _ in range(draw.randint(1, Sizes.requests))]


def draw_case(draw: random.Random, kind: str) -> Case:
    """A random model and step."""
    return Case(
        requests=shapes(draw, kind),
        num_kv_heads=draw.choice(Sizes.kv_heads),
        group_size=draw.choice(Sizes.groups),
        head_size=draw.choice(Sizes.head_sizes),
        block_size=draw.choice(Sizes.block_sizes),
        windows=(draw.choice(Sizes.windows),),
        dtype=draw.choice(Sizes.dtypes),
        softcap=draw.choice((None, None, 5.0)),
        sinks=draw.random() < 0.25,
        seed=draw.randrange(1 << 32),
        device=DEVICE,
    )


def make(kind: type[Any], options: Any, case: Case, num_blocks: int) -> Any:
    """A backend whose cache holds NaN wherever nothing is written; padding is block 0."""
    backend = served(kind, options, case)
    backend.allocate(case.spec, num_blocks)
    if isinstance(backend, DeferredAttention):
        fill_with_nan(backend._kernels._cache)  # type: ignore[attr-defined]
    return backend


def served(kind: type[Any], options: Any, case: Case) -> Any:
    """A backend; the test is skipped with its reason if it cannot serve the case here."""
    backend = kind(options, None)
    reason = backend.unsupported(case.spec)
    if reason is not None:
        pytest.skip(reason)
    return backend


def fill_with_nan(cache: Any) -> None:
    """Fill every slot of a cache, but those of the blank block of a ``PagedCache``."""
    if isinstance(cache, PagedCache):
        for layer in cache.layers:
            layer[:, : cache.blank * cache.block_size] = math.nan
        return
    for layer in (*cache.keys, *cache.values):
        layer.fill_(math.nan)


def check(kind: type[Any], options: Any, case: Case) -> None:
    check_attention(case, lambda num_blocks: make(kind, options, case, num_blocks))


BACKENDS = {
    "torch": (TorchAttention, TorchAttentionOptions()),
    "triton": (TritonAttention, TritonAttentionOptions()),
    "triton, split": (TritonAttention, TritonAttentionOptions(splits=3)),
    "xformers": (XformersAttention, XformersAttentionOptions()),
    "torch-varlen": (TorchVarlenAttention, None),
}


@pytest.mark.parametrize("kind", ["decodes", "prompts", "chunks", "mixed"])
@pytest.mark.parametrize("name", BACKENDS)
def test_random_steps_equal_dense_attention(name: str, kind: str) -> None:
    """Head groups, partial last blocks, windows, caps, sinks; unused slots are NaN."""
    cls, options = BACKENDS[name]
    plain = Case(requests=[], head_size=64, block_size=256, dtype="float16", device=DEVICE)
    reason = cls(options, None).unsupported(plain.spec)
    if reason is not None:
        pytest.skip(reason)
    draw = random.Random(f"{name} {kind}")
    num_done = 0
    for _ in range(1000):
        case = draw_case(draw, kind)
        if cls(options, None).unsupported(case.spec) is None:
            check(cls, options, case)
            num_done += 1
        if num_done == NUM_CASES:
            return
    pytest.fail(f"{name} serves only {num_done} of 1000 random cases")


class _Kernels(AttentionConformance):
    device = DEVICE
    head_size = 64
    block_size = 16
    dtype = "float16"

    @pytest.fixture(autouse=True)
    def _is_served_here(self) -> None:
        reason = self.build().unsupported(self._case(requests=[]).spec)
        if reason is not None:
            pytest.skip(reason)


class TestTriton(_Kernels):
    component = TritonAttention


if not IS_SMALL:

    class TestXformers(_Kernels):
        component = XformersAttention

    class TestTorchVarlen(_Kernels):
        component = TorchVarlenAttention
        block_size = 256

    class TestTorch(_Kernels):
        component = TorchAttention


@pytest.mark.parametrize("name", ["triton", "xformers"])
def test_copied_blocks_hold_the_same(name: str) -> None:
    """In every layer, keys and values."""
    cls, options = BACKENDS[name]
    case = Case(
        requests=[Shape(16, 1)] * 2,
        head_size=64,
        block_size=16,
        windows=(None, None),
        dtype="float16",
        device=DEVICE,
    )
    check_copies(case, make(cls, options, case, 6))


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("name", ["triton", "xformers"])
def test_blocks_behind_the_window_are_never_read(name: str, window: int | None) -> None:
    """A windowed KV manager may have given them away: their place is the null block."""
    cls, options = BACKENDS[name]
    case = Case(
        requests=[Shape(40, 1)],
        head_size=64,
        block_size=16,
        windows=(window,),
        dtype="float16",
        device=DEVICE,
    )
    backend = make(cls, options, case, 5)
    draw = torch.Generator().manual_seed(1)
    keys, values = (
        torch.randn(41, 2, 64, generator=draw).to(DEVICE, torch.float16) for _ in range(2)
    )
    table = [1, 2, 3]
    backend.begin_step(make_batch([table], [Shape(0, 40)], 16, DEVICE))
    backend.forward(LayerCall(0, keys[:40], keys[:40], values[:40], scale=0.125))
    if window is not None:
        table = [0, 0, 3]  # positions 34 to 40 are all in the third block
    backend.begin_step(make_batch([table], [Shape(40, 1)], 16, DEVICE))
    actual = backend.forward(LayerCall(0, keys[40:], keys[40:], values[40:], scale=0.125))
    expected = dense_attention(keys[40:], keys, values, window=window, scale=0.125)
    torch.testing.assert_close(actual.double(), expected, atol=4e-3, rtol=0)


@pytest.mark.parametrize("name", ["triton", "xformers"] if IS_SMALL else ["triton"])
def test_engine_answers_as_with_torch(name: str, tmp_path: Path) -> None:
    """In a real model: tensors as its layers hand them over, steps as a scheduler plans.

    In float32, which xformers computes under the interpreter alone.
    """
    pytest.importorskip("transformers")
    served(*BACKENDS[name], Case(requests=[], head_size=16, block_size=16, device=DEVICE))
    model = tiny_mistral(tmp_path)
    expected = answers(model, "torch")
    assert len(expected) == 2
    assert answers(model, name) == expected


def tiny_mistral(folder: Path) -> Path:
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(3)
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = MistralConfig(
        vocab_size=97, num_hidden_layers=2, intermediate_size=64, sliding_window=6, **sizes
    )
    model = MistralForCausalLM(config)
    for parameter in model.parameters():  # untrained weights make all tokens alike
        parameter.data.mul_(3.0 if parameter.dim() > 1 else 1.0)
    model.save_pretrained(folder)
    return folder


def answers(model: Path, backend: str) -> dict[str, list[int]]:
    engine = Engine.from_config(
        {
            "model": {"path": str(model), "dtype": "float32", "max_model_len": 64},
            "scheduler": {"max_num_seqs": 2, "max_num_batched_tokens": 8},
            "kv": {"num_blocks": 8},
            "attention": {"backend": backend},
            "executor": {"torch": {"device": DEVICE, "threads": 1}},
        }
    )
    assert engine.model.attention == backend
    prompts = [[5, 17, 40, 2], list(range(10, 21))]
    params = SamplingParams(temperature=0.0, max_tokens=2, ignore_eos=True)
    outputs = engine.generate(prompts, params)
    return {output.request_id: list(output.token_ids) for output in outputs}


if IS_SMALL:

    def dense_stand_in(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_bias: Any, scale: float
    ) -> torch.Tensor:
        """Compute the result of xformers' dense kernel, by its own mask written out."""
        queries, keys, values = (
            t.double().flatten(2, 3).transpose(1, 2) for t in (query, key, value)
        )
        shape = queries.shape[2], keys.shape[2]
        mask = attn_bias.materialize(shape, dtype=torch.float64)
        scores = queries @ keys.transpose(-2, -1) * scale + mask
        answer = (scores.softmax(-1) @ values).transpose(1, 2)
        return answer.unflatten(2, query.shape[2:4]).to(query.dtype)

    @pytest.mark.parametrize("kind", ["prompts", "mixed"])
    def test_xformers_gathers_long_prefills(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Which keys, in which order, under which mask; the kernel needs CUDA."""
        fmha = pytest.importorskip("xformers.ops").fmha

        from batchwright_engine.attention import xformers_attention

        monkeypatch.setattr(xformers_attention, "_has_dense_kernel", lambda: True)
        monkeypatch.setattr(fmha, "memory_efficient_attention_forward", dense_stand_in)
        draw = random.Random(kind)
        for _ in range(4):
            case = evolve(draw_case(draw, kind), softcap=None, sinks=False)
            check(XformersAttention, XformersAttentionOptions(gather_from=4), case)
