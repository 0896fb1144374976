"""Preparation of a step for kernels on CUDA: tiles, rows, gathered keys, lengths."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from batchwright.messages import BlockCopy
from batchwright.protocols.attention import AttentionSpec
from batchwright.testing.attention import Case, Shape, check_attention, check_copies, make_batch
from batchwright_engine.attention.block_cache import BlockCache
from batchwright_engine.attention.gathered_keys import GatheredKeys
from batchwright_engine.attention.query_rows import QueryRows
from batchwright_engine.attention.query_tiles import QueryTiles, TileShape, power_of_two
from batchwright_engine.attention.torch_varlen import TorchVarlenAttention

SHAPES = [Shape(7, 1), Shape(0, 5), Shape(2, 3)]
TABLES = [[5, 6], [1, 2], [3, 4]]
STARTS = [0, 1, 6]


def spec(**fields: Any) -> AttentionSpec:
    return Case(requests=[], **fields).spec


@pytest.mark.parametrize(("number", "expected"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64)])
def test_power_of_two_is_not_less(number: int, expected: int) -> None:
    assert power_of_two(number) == expected


@pytest.mark.parametrize(
    ("fields", "most_queries", "rows", "columns", "queries"),
    [
        ({"group_size": 4, "head_size": 128, "dtype": "bfloat16"}, 1, 16, 64, 4),
        ({"group_size": 4, "head_size": 128, "dtype": "bfloat16"}, 5, 64, 64, 16),
        ({"group_size": 3, "head_size": 64, "dtype": "float32"}, 9, 32, 32, 10),
        ({"group_size": 1, "head_size": 256, "dtype": "float16"}, 1, 16, 32, 16),
        ({"group_size": 71, "head_size": 64, "dtype": "float16"}, 1, 128, 64, 1),
    ],
)
def test_tile_shape_fits_heads_and_queries(
    fields: dict[str, Any], most_queries: int, rows: int, columns: int, queries: int
) -> None:
    """Small for decodes, never smaller than a group of heads."""
    shape = TileShape.choose(spec(**fields), most_queries)
    assert (shape.rows, shape.columns, shape.queries) == (rows, columns, queries)


def test_tiles_cover_every_query_once() -> None:
    """A request's last tile may be partly empty."""
    shapes = [Shape(7, 1), Shape(0, 40), Shape(2, 16)]
    batch = make_batch([[1, 2], [3] * 10, [4] * 5], shapes, 4)
    tiles = QueryTiles.cut(batch, spec(group_size=4, dtype="float16", head_size=64))
    assert tiles.shape.queries == 16
    assert tiles.requests.tolist() == [0, 1, 1, 1, 2]
    assert tiles.offsets.tolist() == [0, 0, 16, 32, 0]
    assert tiles.seq_lens.tolist() == [8, 40, 18]
    assert tiles.num_tokens == 57
    assert tiles.longest == 40
    assert tiles.requests.dtype == tiles.offsets.dtype == tiles.seq_lens.dtype == torch.int32


@pytest.mark.parametrize(
    ("length", "count", "window", "processors", "expected"),
    [
        (100_000, 1, None, 132, 33),  # 8 programs a part: 264 keep 132 processors busy
        (100_000, 40, None, 132, 1),  # 320 programs do already
        (1_000, 1, None, 132, 4),  # no part under 256 keys
        (100_000, 1, 512, 132, 2),  # what the window hides is not computed
        (100_000, 1, None, 1_000, 64),
        (100_000, 1, None, 1, 1),
    ],
)
def test_keys_are_split_until_the_gpu_is_busy(
    length: int, count: int, window: int | None, processors: int, expected: int
) -> None:
    """And no further: parts have to be merged."""
    tables = [[1] * (length // 16 + 1)] * count
    batch = make_batch(tables, [Shape(length - 1, 1)] * count, 16)
    tiles = QueryTiles.cut(batch, spec(num_kv_heads=8, dtype="float16", head_size=64))
    assert tiles.num_splits(window, 8, processors) == expected


def test_rows_are_padded_to_powers_of_two() -> None:
    """Rows and the width of their tables; padding sees nothing and is the null block."""
    rows = QueryRows.of(make_batch(TABLES, SHAPES, 4), [0, 2], STARTS)
    assert rows.tokens.tolist() == [0, 6, 7, 8]
    assert rows.ends == [8, 3, 4, 5, 0, 0, 0, 0]
    assert rows.num_padded == 8
    assert rows.block_tables.dtype == torch.int32
    expected = [[5, 6, 0, 0], *[[3, 4, 0, 0]] * 3, *[[0, 0, 0, 0]] * 4]
    assert rows.block_tables.tolist() == expected


def test_gathered_keys_lie_in_order() -> None:
    """Request by request, position by position, whatever the blocks."""
    keys = GatheredKeys.of(make_batch(TABLES, SHAPES, 4), [1, 2], STARTS, window=None, block_size=4)
    assert keys.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert keys.slots.tolist() == [4, 5, 6, 7, 8, 12, 13, 14, 15, 16]
    assert keys.query_lens == [5, 3]
    assert keys.key_lens == [5, 5]


def test_gathered_keys_begin_where_the_first_query_looks() -> None:
    """Keys that the window hides from all queries are not gathered."""
    keys = GatheredKeys.of(make_batch(TABLES, SHAPES, 4), [1, 2], STARTS, window=2, block_size=4)
    assert keys.slots.tolist() == [4, 5, 6, 7, 8, 13, 14, 15, 16]
    assert keys.key_lens == [5, 4]


def test_cache_copies_read_all_before_writing() -> None:
    """A chain of copies moves each block once."""
    cache = BlockCache(spec(block_size=1, head_size=1, num_kv_heads=1), 4)
    new = torch.tensor([1.0, 2.0]).view(2, 1, 1)
    cache.write(0, torch.tensor([1, 2]), new, -new)
    cache.copy_blocks([BlockCopy(1, 2), BlockCopy(2, 3)])
    cache.copy_blocks([])
    assert cache.keys[0].flatten().tolist() == [0, 1, 1, 2]
    assert cache.values[0].flatten().tolist() == [0, -1, -1, -2]


def paged_reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window_size: tuple[int, int],
    enable_gqa: bool,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
) -> torch.Tensor:
    """Compute the result that the documentation of ``varlen_attn`` defines."""
    from batchwright.testing.attention import dense_attention

    assert cu_seq_k is None
    assert enable_gqa
    left, right = window_size
    assert right == 0
    assert max_q == int(cu_seq_q.diff().max())
    assert max_k == int(seqused_k.max())
    parts = []
    for row, (start, stop) in enumerate(pairwise(cu_seq_q.tolist())):
        length = int(seqused_k[row])
        pages = block_table[row].long()
        keys, values = (t[pages].flatten(0, 1)[:length] for t in (key, value))
        window = None if left < 0 else left + 1
        some = dense_attention(query[start:stop], keys, values, window=window, scale=scale)
        parts.append(some.to(query.dtype))
    return torch.cat(parts)


def test_varlen_is_called_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block tables, used lengths, a window that counts what lies to the left."""
    from batchwright_engine.attention import varlen_attention

    monkeypatch.setattr(varlen_attention, "varlen_attn", paged_reference)

    def allocate(case: Case, num_blocks: int) -> TorchVarlenAttention:
        backend = TorchVarlenAttention(None, None)  # type: ignore[arg-type]
        backend._kernels = varlen_attention.VarlenPagedAttention(case.spec, num_blocks)
        return backend

    case = Case(requests=SHAPES, group_size=3, windows=(None, 1, 4))
    check_attention(case, lambda num_blocks: allocate(case, num_blocks))
    twice = Case(requests=[Shape(4, 1)] * 2, windows=(None, None))
    check_copies(twice, allocate(twice, 6))


@pytest.mark.parametrize(("current", "activated"), [(None, ["FA3"]), ("FA3", [])])
def test_varlen_activates_the_implementation_once(
    current: str | None, activated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in force for the whole process: not again where it is already."""
    from torch.nn import attention

    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(attention, "current_flash_attention_impl", lambda: current)
    monkeypatch.setattr(attention, "activate_flash_attention_impl", calls.append)
    TorchVarlenAttention(None, None).allocate(spec(), 4)  # type: ignore[arg-type]
    assert calls == activated
