"""The numba attention backend against a dense reference in float64."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.protocols.attention import AttentionBackend, LayerCall
from batchwright.testing.attention import Case, Shape, check_attention, check_copies, make_batch
from batchwright_engine.attention import numba_attention, numba_kernels, numba_paged
from batchwright_engine.attention.decode_segments import DecodeSegments
from batchwright_engine.attention.numba_paged import NumbaAttention


def backend_of(case: Case, num_blocks: int) -> NumbaAttention:
    """A backend whose cache holds NaN wherever nothing was written."""
    backend = NumbaAttention(NumbaAttention.Options(), None)  # type: ignore[arg-type]
    assert backend.unsupported(case.spec) is None
    backend.allocate(case.spec, num_blocks)
    for layer in backend._kernels._cache.layers:  # type: ignore[attr-defined]
        layer[:, : num_blocks * case.block_size] = math.nan
    return backend


def check(case: Case) -> None:
    check_attention(case, lambda num_blocks: backend_of(case, num_blocks))


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads torch has, for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


shapes = st.one_of(
    st.builds(Shape, st.integers(0, 40), st.just(1)),
    st.builds(Shape, st.just(0), st.integers(2, 20)),
    st.builds(Shape, st.integers(1, 30), st.integers(2, 20)),
)
cases = st.builds(
    Case,
    requests=st.lists(shapes, min_size=1, max_size=7),
    num_kv_heads=st.integers(1, 3),
    group_size=st.sampled_from([1, 3]),
    head_size=st.just(8),
    block_size=st.sampled_from([1, 2, 4, 16]),
    windows=st.lists(st.none() | st.integers(1, 24), min_size=1, max_size=3).map(tuple),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    softcap=st.none() | st.just(5.0),
    sinks=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)


@settings(max_examples=120, deadline=None)
@given(cases, st.integers(1, 5), st.sampled_from([0, 10_000, 1 << 22]))
def test_forward_equals_dense_attention(case: Case, num_threads: int, most_alone: int) -> None:
    """Decodes, prefills, chunks, all mixed, in any number of parts; few tokens alone or not."""
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_attention, "_LEAST_WORK", 1)
        patch.setattr(numba_attention, "_MOST_ALONE", most_alone)
        torch.set_num_threads(num_threads)
        try:
            check(case)
        finally:
            torch.set_num_threads(before)


@pytest.mark.slow  # each shape is compiled
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("group_size", "head_size"), [(3, 64), (1, 80), (8, 16)])
def test_forward_serves_heads_of_real_models(dtype: str, group_size: int, head_size: int) -> None:
    """Rows that are no power of two, and more of them than there are registers."""
    requests = [Shape(33, 1), Shape(0, 9), Shape(31, 1), Shape(0, 1), Shape(200, 1)]
    check(Case(requests=requests, dtype=dtype, group_size=group_size, head_size=head_size))


def test_forward_of_scores_that_overflow_two_to_their_power() -> None:
    """Weights are relative to the largest score; far smaller ones are nothing."""
    case = Case(requests=[Shape(20, 1)], num_kv_heads=1, head_size=8)
    backend = backend_of(case, 8)
    batch = make_batch([[1, 2, 3, 4, 5, 6]], [Shape(0, 20)], 4)
    keys = torch.zeros(20, 1, 8)
    keys[7] = 100.0
    backend.begin_step(batch)
    backend.forward(LayerCall(0, keys, keys, keys, scale=1.0))
    backend.begin_step(make_batch([[1, 2, 3, 4, 5, 6]], [Shape(20, 1)], 4))
    one, zero = torch.full((1, 1, 8), 50.0), torch.zeros(1, 1, 8)
    answer = backend.forward(LayerCall(0, one, zero, zero, scale=1.0))
    assert torch.equal(answer, torch.full((1, 1, 8), 100.0))


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_that_are_not_finite_are_not_hidden(
    bad: float,
    softcap: float | None,
    num_threads: int,
    set_threads: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NaN anywhere, or infinity among them, makes NaN; a capped infinity is the cap."""
    monkeypatch.setattr(numba_attention, "_LEAST_WORK", 1)
    set_threads(num_threads)
    case = Case(requests=[], num_kv_heads=1, softcap=softcap)
    backend, table = backend_of(case, 11), [list(range(1, 11))]
    for place in (0, 18, 37, 38):
        keys, values = torch.ones(38, 1, 8), torch.ones(38, 1, 8)
        if place < 38:
            keys[place] = bad
        backend.begin_step(make_batch(table, [Shape(0, 38)], 4))
        backend.forward(LayerCall(0, keys, keys, values, scale=1.0, softcap=softcap))
        backend.begin_step(make_batch(table, [Shape(38, 1)], 4))
        last = torch.full((1, 1, 8), bad if place == 38 else 1.0)
        ones = torch.ones(1, 1, 8)
        answer = backend.forward(LayerCall(0, ones, last, ones, scale=1.0, softcap=softcap))
        hidden = softcap is not None and bad == math.inf
        assert torch.isfinite(answer).all() == hidden, (place, answer)


def test_nothing_is_compiled_once_there_is_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request waits for a compiler, whatever it is."""
    monkeypatch.setattr(numba_attention, "_LEAST_WORK", 1)
    requests = [Shape(33, 1), Shape(0, 9), Shape(3, 4), Shape(0, 1)]
    case = Case(requests=requests, group_size=3, sinks=True)
    backend_of(case, 2)
    compilers = "write_work", "attend_work", "merge_work"
    before = [getattr(numba_kernels, name).cache_info().misses for name in compilers]
    check(case)
    assert [getattr(numba_kernels, name).cache_info().misses for name in compilers] == before


def backwards(work: Any, num_rows: int, _row_work: int, *arguments: int) -> None:
    """Shares a job out by single rows, the last one first."""
    words = np.array((num_rows, 1, *arguments), np.int64)
    do = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(work.address)
    for part in reversed(range(num_rows)):
        do(words.ctypes.data, part)


def test_tokens_may_be_written_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's first token clears slots that no request writes: others may be there before it."""
    monkeypatch.setattr(numba_attention, "share_rows", backwards)
    case = Case(requests=[], num_kv_heads=1, head_size=8, block_size=4)
    backend = backend_of(case, 4)
    cache = backend._kernels._cache.layers[0]  # type: ignore[attr-defined]
    tokens = torch.arange(1.0, 7.0)[:, None, None].expand(6, 1, 8)
    backend.begin_step(make_batch([[2, 1]], [Shape(0, 6)], 4))
    backend.forward(LayerCall(0, tokens, tokens, -tokens, scale=1.0))
    written = [5.0, 6.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    assert cache[0, 4:12, 0].tolist() == written
    assert cache[1, 4:12, 7].tolist() == [-number for number in written]
    assert cache[:, 12:16].isnan().all()


def test_a_single_token_may_have_any_step() -> None:
    """torch says what it likes of how far the next one would be."""
    case = Case(requests=[], num_kv_heads=2, group_size=2, head_size=8)
    backend = backend_of(case, 2)
    nothing, value = torch.zeros(1, 2, 8), torch.ones(1, 2, 8).as_strided((1, 2, 8), (1, 8, 1))
    backend.begin_step(make_batch([[1]], [Shape(0, 1)], 4))
    backend.forward(LayerCall(0, torch.ones(1, 4, 8), nothing, nothing, scale=1.0))
    backend.begin_step(make_batch([[1]], [Shape(1, 1)], 4))
    signs = torch.tensor([-1.0, -1.0, 1.0, 1.0]).repeat_interleave(8)
    query = (100 * signs).as_strided((1, 4, 8), (8, 8, 1))
    answer = backend.forward(LayerCall(0, query, value, value, scale=1.0))
    assert answer[0, :, 0].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_copied_blocks_answer_what_the_original_does() -> None:
    """Both halves of the cache, every layer."""
    case = Case(requests=[Shape(4, 1), Shape(4, 1)], windows=(None, 3))
    check_copies(case, backend_of(case, 6))


def test_two_engines_compute_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads help one of them, the others do without."""
    monkeypatch.setattr(numba_attention, "_LEAST_WORK", 1)
    case = Case(requests=[Shape(40, 1)] * 6, head_size=8)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                check(case)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_it_is_for_a_cpu() -> None:
    """And for the types that its kernels read."""
    backend: AttentionBackend = NumbaAttention(NumbaAttention.Options(), None)  # type: ignore[arg-type]
    cuda = Case(requests=[], device="cuda", block_size=16).spec
    half = Case(requests=[], dtype="float16", block_size=16).spec
    assert backend.unsupported(cuda) == "it computes on cpu, not on cuda"
    assert backend.unsupported(half) == "it computes in float32 or bfloat16, not in float16"


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_where_numba_cannot_compile_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that another backend is chosen, before anything is allocated."""
    monkeypatch.setattr(numba_paged, "problem", lambda: "numba cannot be imported: too new")
    backend = NumbaAttention(NumbaAttention.Options(), None)  # type: ignore[arg-type]
    assert backend.unsupported(Case(requests=[]).spec) == "numba cannot be imported: too new"


def test_segments_cut_the_keys_in_the_middle() -> None:
    """Two requests of 3 and 7 keys, two heads, three parts: cut behind 6 and 13 of 20."""
    divided = DecodeSegments.divide(
        numbers(4, 6), numbers(9, 20), numbers(0, 5), numbers(3, 12), 2, 3
    )
    assert divided.segments.tolist() == [
        [4, 9, 0, 0, 3, 1],
        [6, 20, 0, 5, 8, 0],
        [6, 20, 0, 8, 12, 0],
        [4, 9, 1, 0, 3, 1],
        [6, 20, 1, 5, 12, 1],
    ]
    assert divided.cut.tolist() == [[1, 3]]
    assert divided.parts.tolist() == [0, 2, 4, 5]
    assert divided.num_parts == 3
    assert divided.most_keys == 7


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.integers(1, 3), st.integers(1, 8))
def test_segments_have_every_key_once(lens: list[int], num_heads: int, num_parts: int) -> None:
    """In parts that differ by no more than one."""
    count = len(lens)
    places, begins = np.arange(count), np.arange(count) * 3
    divided = DecodeSegments.divide(places, places, begins, begins + lens, num_heads, num_parts)
    keys = [
        (request, head, key)
        for request, _, head, begin, end, _ in divided.segments.tolist()
        for key in range(begin, end)
    ]
    assert keys == [
        (r, h, 3 * r + i) for h in range(num_heads) for r in range(count) for i in range(lens[r])
    ]
    sizes = [
        int((divided.segments[a:b, 4] - divided.segments[a:b, 3]).sum())
        for a, b in zip(divided.parts[:-1], divided.parts[1:], strict=True)
    ]
    assert max(sizes) - min(sizes) <= 1
    assert divided.parts[-1] == len(divided.segments)
