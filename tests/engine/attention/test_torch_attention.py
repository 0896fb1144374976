"""The torch attention backend against a dense reference in float64."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.messages import BlockCopy
from batchwright.protocols.attention import LayerCall
from batchwright.testing.attention import (
    TOLERANCE,
    Case,
    Shape,
    check_attention,
    dense_attention,
    make_batch,
)
from batchwright_engine.attention.torch_paged import TorchAttention, TorchAttentionOptions


def backend_of(case: Case, num_blocks: int, chunk_tokens: int | None = None) -> TorchAttention:
    """A backend whose cache holds NaN wherever nothing was written."""
    options = TorchAttentionOptions(chunk_tokens)
    backend = TorchAttention(options, None)  # type: ignore[arg-type]
    assert backend.unsupported(case.spec) is None
    backend.allocate(case.spec, num_blocks)
    cache = backend._kernels._cache
    for layer in cache._layers:
        layer.view(2 * case.num_kv_heads, num_blocks + 1, -1)[:, :num_blocks] = math.nan
    return backend


def check(case: Case, chunk_tokens: int | None = None) -> None:
    check_attention(case, lambda num_blocks: backend_of(case, num_blocks, chunk_tokens))


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
    seed=st.integers(0, 2**32 - 1),
)


@settings(max_examples=150, deadline=None)
@given(cases, st.none() | st.integers(1, 64))
def test_forward_equals_dense_attention(case: Case, chunk_tokens: int | None) -> None:
    """Decodes, prefills, chunks, all mixed: as if every sequence were dense."""
    check(case, chunk_tokens)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("group_size", [1, 3])
@pytest.mark.parametrize("windows", [(None,), (7, None), (16, 16)])
def test_forward_mixed_batch(dtype: str, group_size: int, windows: tuple[int | None, ...]) -> None:
    """The fused path, with partial last blocks and unequal lengths in one group."""
    requests = [Shape(33, 1), Shape(0, 9), Shape(31, 1), Shape(6, 5), Shape(0, 1), Shape(3, 1)]
    check(Case(requests=requests, dtype=dtype, group_size=group_size, windows=windows))


def test_forward_by_hand_takes_queries_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long prefill with a soft cap does not hold all of its scores at once."""
    monkeypatch.setattr("batchwright_engine.attention.dense_attention._MOST_SCORES", 64)
    requests = [Shape(5, 11), Shape(0, 13), Shape(20, 1)]
    check(Case(requests=requests, softcap=3.0, sinks=True, group_size=2, windows=(None, 6)))


def test_forward_reads_blocks_that_another_request_writes_in_the_same_step() -> None:
    """A prefix hit may point at blocks that this very step fills."""
    case = Case(requests=[Shape(0, 8), Shape(4, 3)], num_kv_heads=1)
    backend = backend_of(case, 8)
    random = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(11, 1, 8, generator=random) for _ in range(3))
    backend.begin_step(make_batch([[3, 5], [3, 2]], case.requests, 4))
    actual = backend.forward(LayerCall(0, query, key, value, scale=1.0))
    own = [*range(4), *range(8, 11)]
    expected = dense_attention(query[8:], key[own], value[own])
    torch.testing.assert_close(actual[8:].double(), expected, atol=1e-5, rtol=0)


def test_forward_never_reads_blocks_behind_the_window() -> None:
    """Blocks that a windowed KV manager took away may be the null block."""
    case = Case(requests=[Shape(17, 1), Shape(14, 3)], windows=(5,), num_kv_heads=1)
    backend = backend_of(case, 8)
    random = torch.Generator().manual_seed(2)
    keys, values = (torch.randn(18, 1, 8, generator=random) for _ in range(2))
    tables = [[0, 0, 0, 1, 2], [0, 0, 3, 4, 5]]
    past = [Shape(13, 4), Shape(9, 5)]
    backend.begin_step(make_batch(tables, past, 4))
    some = [*range(13, 17), *range(9, 14)]
    backend.forward(LayerCall(0, torch.ones(9, 1, 8), keys[some], values[some], scale=1.0))
    query = torch.randn(4, 1, 8, generator=random)
    backend.begin_step(make_batch(tables, case.requests, 4))
    new = [17, 14, 15, 16]
    actual = backend.forward(LayerCall(0, query, keys[new], values[new], scale=1.0))
    expected = torch.cat(
        (
            dense_attention(query[:1], keys[:18], values[:18], window=5),
            dense_attention(query[1:], keys[:17], values[:17], window=5),
        )
    )
    torch.testing.assert_close(actual.double(), expected, atol=1e-5, rtol=0)


def test_copy_blocks_copies_keys_and_values_of_every_layer() -> None:
    """A chain of copies reads all sources first."""
    case = Case(requests=[Shape(0, 4)], windows=(None, 3))
    backend = backend_of(case, 6)
    random = torch.Generator().manual_seed(3)
    old = torch.randn(4, 2, 8, generator=random)
    backend.begin_step(make_batch([[1]], case.requests, 4))
    for layer in (0, 1):
        backend.forward(LayerCall(layer, old, old, old, scale=1.0))
    backend.copy_blocks([BlockCopy(1, 2), BlockCopy(2, 3)])
    backend.copy_blocks([])
    step = make_batch([[2, 4], [1, 5]], [Shape(4, 1)] * 2, 4)
    backend.begin_step(step)
    new = torch.randn(1, 2, 8, generator=random).expand(2, -1, -1)
    for layer in (0, 1):
        copied, original = backend.forward(LayerCall(layer, new, new, new, scale=1.0))
        torch.testing.assert_close(copied, original)
        assert torch.isfinite(copied).all()
    backend.begin_step(make_batch([[3, 4]], [Shape(4, 1)], 4))
    assert torch.isnan(backend.forward(LayerCall(0, new[:1], new[:1], new[:1], scale=1.0))).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "mps"}, "cpu or cuda"),
        ({"dtype": "float64"}, "not in float64"),
        ({"num_query_heads": 5}, "share"),
    ],
)
def test_unsupported_names_the_reason(change: dict[str, Any], reason: str) -> None:
    """The reason is given before anything is allocated."""
    from attrs import evolve

    spec = evolve(Case(requests=[]).spec, **change)
    backend = TorchAttention(TorchAttentionOptions(), None)  # type: ignore[arg-type]
    assert reason in (backend.unsupported(spec) or "")


def test_listing_the_class_does_not_import_torch() -> None:
    """`batchwright plugins` reads names and options only."""
    code = (
        "import sys\n"
        "from batchwright_engine.attention import batchwright_register_attention as hook\n"
        "print([offer.load().name for offer in hook()], 'torch' in sys.modules)"
    )
    path = {"PYTHONPATH": ":".join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True
    )
    assert "'torch'" in answer.stdout
    assert answer.stdout.split()[-1] == "False"


@settings(max_examples=60, deadline=None)
@given(
    lens=st.lists(st.integers(1, 40), min_size=4, max_size=9),
    others=st.lists(st.integers(1, 90), max_size=3),
    num_shared=st.sampled_from([64, 72, 100]),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    group_size=st.integers(1, 3),
    softcap=st.none() | st.just(5.0),
    with_sinks=st.booleans(),
    chunk_tokens=st.none() | st.just(40),
    seed=st.integers(0, 2**32 - 1),
)
def test_forward_computes_a_shared_beginning_once(
    lens: list[int],
    others: list[int],
    num_shared: int,
    dtype: str,
    group_size: int,
    softcap: float | None,
    with_sinks: bool,
    chunk_tokens: int | None,
    seed: int,
) -> None:
    """Decodes that begin with the same blocks answer as if each had its own."""
    size, heads, width = 4, 2, 8
    chance = random.Random(seed)
    torch.manual_seed(seed)
    kind = getattr(torch, dtype)
    needs = [-(-n // size) for n in lens] + [-(-n // size) for n in others]
    num_common = num_shared // size
    blocks = list(range(1, 1 + num_common + sum(needs)))
    chance.shuffle(blocks)
    common = [blocks.pop() for _ in range(num_common)]
    tables = [[blocks.pop() for _ in range(need)] for need in needs]
    tables = [common + t if i < len(lens) else t for i, t in enumerate(tables)]
    totals = [num_shared + n for n in lens] + others
    order = chance.sample(range(len(tables)), len(tables))
    tables, totals = [tables[i] for i in order], [totals[i] for i in order]
    case = Case(requests=[], num_kv_heads=heads, group_size=group_size, dtype=dtype)
    backend = backend_of(case, 1 + num_common + sum(needs), chunk_tokens)
    keys, values = (torch.randn(max(totals), heads, width).to(kind) for _ in range(2))
    for table, total in zip(tables, totals, strict=True):
        if total > 1:
            backend.begin_step(make_batch([table], [Shape(0, total - 1)], size))
            zeros = torch.zeros(total - 1, heads * group_size, width).to(kind)
            backend.forward(LayerCall(0, zeros, keys[: total - 1], values[: total - 1], scale=1.0))
    backend.begin_step(make_batch(tables, [Shape(total - 1, 1) for total in totals], size))
    assert any(group.num_shared for group in backend._kernels._work[None].groups)
    last = [total - 1 for total in totals]
    query = torch.randn(len(totals), heads * group_size, width).to(kind)
    extra: dict[str, Any] = {
        "scale": width**-0.5,
        "softcap": softcap,
        "sinks": torch.randn(heads * group_size).to(kind) if with_sinks else None,
    }
    actual = backend.forward(LayerCall(0, query, keys[last], values[last], **extra))
    for i, total in enumerate(totals):
        expected = dense_attention(query[i : i + 1], keys[:total], values[:total], **extra)
        torch.testing.assert_close(
            actual[i : i + 1].double(), expected, atol=TOLERANCE[dtype], rtol=0
        )


def test_short_or_rare_beginnings_are_not_shared() -> None:
    """Two more products pay only for enough tokens and requests."""
    case = Case(requests=[], num_kv_heads=1)
    backend = backend_of(case, 200)
    common = list(range(1, 17))
    tables = [[*common, 20 + i] for i in range(4)]
    for some, computed, expected in ((tables, 64, [64]), (tables[:3], 64, [0]), (tables, 63, [0])):
        batch = make_batch(some, [Shape(computed, 1)] * len(some), 4)
        backend.begin_step(batch)
        groups = backend._kernels._work[None].groups
        assert [group.num_shared for group in groups] == expected
