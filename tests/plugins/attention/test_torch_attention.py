"""The torch attention backend against a dense reference in float64."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.messages import BlockCopy
from batchwright.protocols.attention import AttentionBatch, AttentionSpec
from batchwright_plugins.attention.torch_paged import TorchAttention, TorchAttentionOptions

TOLERANCE = {"float32": 2e-5, "bfloat16": 3e-2, "float16": 4e-3}


@frozen
class Shape:
    """One request in a step: tokens before the step and tokens in it."""

    computed: int
    granted: int


@frozen(kw_only=True)
class Case:
    """A model's attention and the requests of one step."""

    requests: Sequence[Shape]
    num_kv_heads: int = 2
    group_size: int = 1
    head_size: int = 8
    block_size: int = 4
    windows: tuple[int | None, ...] = (None,)
    dtype: str = "float32"
    softcap: float | None = None
    sinks: bool = False
    chunk_tokens: int | None = None
    seed: int = 0


def spec_of(case: Case) -> AttentionSpec:
    return AttentionSpec(
        num_layers=len(case.windows),
        num_query_heads=case.num_kv_heads * case.group_size,
        num_kv_heads=case.num_kv_heads,
        head_size=case.head_size,
        dtype=case.dtype,
        device="cpu",
        block_size=case.block_size,
        sliding_windows=case.windows,
        softcap=case.softcap is not None,
        sinks=case.sinks,
    )


def backend_of(case: Case, num_blocks: int) -> TorchAttention:
    """A backend whose cache holds NaN wherever nothing was written."""
    options = TorchAttentionOptions(case.chunk_tokens)
    backend = TorchAttention(options, None)  # type: ignore[arg-type]
    assert backend.unsupported(spec_of(case)) is None
    backend.allocate(spec_of(case), num_blocks)
    cache = backend._paged._cache
    for layer in (*cache._keys, *cache._values):
        layer.view(case.num_kv_heads, num_blocks + 1, -1)[:, :num_blocks] = math.nan
    return backend


def batch_of(tables: list[list[int]], shapes: Sequence[Shape], block_size: int) -> AttentionBatch:
    width = max(len(table) for table in tables)
    lens = [shape.granted for shape in shapes]
    slots = [
        table[position // block_size] * block_size + position % block_size
        for table, shape in zip(tables, shapes, strict=True)
        for position in range(shape.computed, shape.computed + shape.granted)
    ]
    return AttentionBatch(
        query_start_loc=torch.tensor([0, *torch.tensor(lens).cumsum(0).tolist()]).int(),
        query_lens=lens,
        seq_lens=[shape.computed + shape.granted for shape in shapes],
        block_tables=torch.tensor([t + [0] * (width - len(t)) for t in tables]).int(),
        slot_mapping=torch.tensor(slots),
    )


def dense(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """One request's last queries over all of its keys, one head and token at a time."""
    query, key, value = query.double(), key.double(), value.double()
    group = query.shape[1] // key.shape[1]
    output = torch.empty_like(query)
    for i in range(len(query)):
        end = len(key) - len(query) + i + 1
        begin = 0 if window is None else max(0, end - window)
        for head in range(query.shape[1]):
            scores = key[begin:end, head // group] @ query[i, head] * scale
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            if sinks is not None:
                scores = torch.cat((scores, sinks[head : head + 1].double()))
            weights = scores.softmax(0)[: end - begin]
            output[i, head] = weights @ value[begin:end, head // group]
    return output


def check(case: Case) -> None:
    """Run every request's history as steps of its own, then the step in question."""
    random = torch.Generator().manual_seed(case.seed)
    dtype = getattr(torch, case.dtype)
    heads = case.num_kv_heads * case.group_size
    scale = case.head_size**-0.5
    needs = [-(-(s.computed + s.granted) // case.block_size) for s in case.requests]
    order = (torch.randperm(sum(needs), generator=random) + 1).tolist()
    tables = [[order.pop() for _ in range(need)] for need in needs]
    backend = backend_of(case, sum(needs) + 1)

    def draw(tokens: int, num_heads: int) -> torch.Tensor:
        return torch.randn(tokens, num_heads, case.head_size, generator=random).to(dtype)

    sinks = torch.randn(heads, generator=random).to(dtype) if case.sinks else None
    layers = range(len(case.windows))
    lengths = [s.computed + s.granted for s in case.requests]
    keys = [[draw(n, case.num_kv_heads) for n in lengths] for _ in layers]
    values = [[draw(n, case.num_kv_heads) for n in lengths] for _ in layers]
    queries = [draw(sum(s.granted for s in case.requests), heads) for _ in layers]
    extra: dict[str, Any] = {"scale": scale, "softcap": case.softcap, "sinks": sinks}

    for i, shape in enumerate(case.requests):
        if shape.computed:
            past = [Shape(0, shape.computed)]
            backend.begin_step(batch_of([tables[i]], past, case.block_size))
            for layer in layers:
                some = slice(0, shape.computed)
                backend.forward(
                    layer,
                    draw(shape.computed, heads),
                    keys[layer][i][some],
                    values[layer][i][some],
                    **extra,
                )

    backend.begin_step(batch_of(tables, case.requests, case.block_size))
    for layer in layers:
        new = [slice(s.computed, s.computed + s.granted) for s in case.requests]
        actual = backend.forward(
            layer,
            queries[layer],
            torch.cat([k[part] for k, part in zip(keys[layer], new, strict=True)]),
            torch.cat([v[part] for v, part in zip(values[layer], new, strict=True)]),
            **extra,
        )
        assert actual.dtype == dtype
        start = 0
        for i, shape in enumerate(case.requests):
            rows = slice(start, start + shape.granted)
            expected = dense(
                queries[layer][rows],
                keys[layer][i],
                values[layer][i],
                case.windows[layer],
                scale,
                case.softcap,
                sinks,
            )
            error = (expected - actual[rows].double()).abs().max().item()
            assert error <= TOLERANCE[case.dtype], (layer, i, error)
            start += shape.granted


shapes = st.one_of(
    st.builds(Shape, st.integers(0, 40), st.just(1)),
    st.builds(Shape, st.just(0), st.integers(2, 20)),
    st.builds(Shape, st.integers(1, 30), st.integers(2, 20)),
)
cases = st.builds(
    Case,
    requests=st.lists(shapes, min_size=1, max_size=7),
    num_kv_heads=st.integers(1, 3),
    group_size=st.integers(1, 4),
    head_size=st.sampled_from([4, 8, 16]),
    block_size=st.sampled_from([1, 2, 4, 16]),
    windows=st.lists(st.none() | st.integers(1, 24), min_size=1, max_size=3).map(tuple),
    dtype=st.sampled_from(["float32", "float32", "bfloat16", "float16"]),
    softcap=st.none() | st.just(5.0),
    sinks=st.booleans(),
    chunk_tokens=st.none() | st.integers(1, 64),
    seed=st.integers(0, 2**32 - 1),
)


@settings(max_examples=150, deadline=None)
@given(cases)
def test_forward_equals_dense_attention(case: Case) -> None:
    """Decodes, prefills, chunks, all mixed: as if every sequence were dense."""
    check(case)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("group_size", [1, 3])
@pytest.mark.parametrize("windows", [(None,), (7, None), (16, 16)])
def test_forward_mixed_batch(dtype: str, group_size: int, windows: tuple[int | None, ...]) -> None:
    """The fused path, with partial last blocks and unequal lengths in one group."""
    requests = [Shape(33, 1), Shape(0, 9), Shape(31, 1), Shape(6, 5), Shape(0, 1), Shape(3, 1)]
    check(Case(requests=requests, dtype=dtype, group_size=group_size, windows=windows))


def test_forward_by_hand_takes_queries_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long prefill with a soft cap does not hold all of its scores at once."""
    monkeypatch.setattr("batchwright_plugins.attention.dense_attention._MOST_SCORES", 64)
    requests = [Shape(5, 11), Shape(0, 13), Shape(20, 1)]
    check(Case(requests=requests, softcap=3.0, sinks=True, group_size=2, windows=(None, 6)))


def test_forward_reads_blocks_that_another_request_writes_in_the_same_step() -> None:
    """A prefix hit may point at blocks that this very step fills."""
    case = Case(requests=[Shape(0, 8), Shape(4, 3)], num_kv_heads=1)
    backend = backend_of(case, 8)
    random = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(11, 1, 8, generator=random) for _ in range(3))
    backend.begin_step(batch_of([[3, 5], [3, 2]], case.requests, 4))
    actual = backend.forward(0, query, key, value, scale=1.0)
    own = [*range(4), *range(8, 11)]
    expected = dense(query[8:], key[own], value[own], None, 1.0, None, None)
    torch.testing.assert_close(actual[8:].double(), expected, atol=1e-5, rtol=0)


def test_forward_never_reads_blocks_behind_the_window() -> None:
    """Blocks that a windowed KV manager took away may be the null block."""
    case = Case(requests=[Shape(17, 1), Shape(14, 3)], windows=(5,), num_kv_heads=1)
    backend = backend_of(case, 8)
    random = torch.Generator().manual_seed(2)
    keys, values = (torch.randn(18, 1, 8, generator=random) for _ in range(2))
    tables = [[0, 0, 0, 1, 2], [0, 0, 3, 4, 5]]
    past = [Shape(13, 4), Shape(9, 5)]
    backend.begin_step(batch_of(tables, past, 4))
    some = [*range(13, 17), *range(9, 14)]
    backend.forward(0, torch.ones(9, 1, 8), keys[some], values[some], scale=1.0)
    query = torch.randn(4, 1, 8, generator=random)
    backend.begin_step(batch_of(tables, case.requests, 4))
    new = [17, 14, 15, 16]
    actual = backend.forward(0, query, keys[new], values[new], scale=1.0)
    expected = torch.cat(
        (
            dense(query[:1], keys[:18], values[:18], 5, 1.0, None, None),
            dense(query[1:], keys[:17], values[:17], 5, 1.0, None, None),
        )
    )
    torch.testing.assert_close(actual.double(), expected, atol=1e-5, rtol=0)


def test_copy_blocks_copies_keys_and_values_of_every_layer() -> None:
    """A chain of copies reads all sources first."""
    case = Case(requests=[Shape(0, 4)], windows=(None, 3))
    backend = backend_of(case, 6)
    random = torch.Generator().manual_seed(3)
    old = torch.randn(4, 2, 8, generator=random)
    backend.begin_step(batch_of([[1]], case.requests, 4))
    for layer in (0, 1):
        backend.forward(layer, old, old, old, scale=1.0)
    backend.copy_blocks([BlockCopy(1, 2), BlockCopy(2, 3)])
    backend.copy_blocks([])
    step = batch_of([[2, 4], [1, 5]], [Shape(4, 1)] * 2, 4)
    backend.begin_step(step)
    new = torch.randn(1, 2, 8, generator=random).expand(2, -1, -1)
    for layer in (0, 1):
        copied, original = backend.forward(layer, new, new, new, scale=1.0)
        torch.testing.assert_close(copied, original)
        assert torch.isfinite(copied).all()
    backend.begin_step(batch_of([[3, 4]], [Shape(4, 1)], 4))
    assert torch.isnan(backend.forward(0, new[:1], new[:1], new[:1], scale=1.0)).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "mps"}, "cpu or cuda"),
        ({"dtype": "float64"}, "not in float64"),
        ({"num_query_heads": 5}, "share"),
    ],
)
def test_unsupported_names_the_reason(change: dict[str, Any], reason: str) -> None:
    """What it cannot serve is said before anything is allocated."""
    from attrs import evolve

    spec = evolve(spec_of(Case(requests=[])), **change)
    backend = TorchAttention(TorchAttentionOptions(), None)  # type: ignore[arg-type]
    assert reason in (backend.unsupported(spec) or "")


def test_listing_the_class_does_not_import_torch() -> None:
    """`batchwright plugins` reads names and options only."""
    code = (
        "import sys\n"
        "from batchwright_plugins.attention import batchwright_register_attention as hook\n"
        "print([c.name for c in hook()], 'torch' in sys.modules)"
    )
    path = {"PYTHONPATH": ":".join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["['torch']", "False"]
