"""Paged attention in Triton: one kernel for decodes, prefills, chunks of them, all mixed.

A program computes a *tile*: some consecutive queries of one request and the query heads
that share one key head, over one part of the keys that these queries see. Its rows are
queries times heads, so that a decode of a model with grouped heads reads each key once.
The softmax is computed on the way (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018; Dao et al., "FlashAttention", 2022). Where the tiles are
too few to fill the GPU, keys are split into parts, and a second kernel merges them (Dao
et al., "Flash-Decoding", 2023).

==================  =============================================================
argument            what it points to
==================  =============================================================
query               ``[num_tokens, num_query_heads, head_size]``, last one dense
keys, values        ``[num_slots, num_kv_heads, head_size]``, dense
output              ``[num_splits, num_tokens, num_query_heads, head_size]``, dense
lse                 ``[num_splits, num_tokens, num_query_heads]`` float32, base 2:
                    logarithm of what a part weighs; None: there is one part
sinks               ``[num_query_heads]``; None: none
tile_requests       ``[num_tiles]`` int32
tile_offsets        ``[num_tiles]`` int32, a tile's first query, in its request
query_start_loc     ``[num_reqs + 1]`` int32
seq_lens            ``[num_reqs]`` int32
block_tables        ``[num_reqs, max_blocks]`` int32
==================  =============================================================

ROWS, COLUMNS and DIMS are powers of two: rows of a tile, keys that are looked at
together, elements a head and some more. What differs from step to step is not specialized:
a step must not compile a kernel because of its sizes.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["attend_tiles", "merge_splits"]


@triton.jit(
    do_not_specialize=["window", "num_splits", "num_tokens", "stride_table"],
    do_not_specialize_on_alignment=[
        "lse",
        "sinks",
        "tile_requests",
        "tile_offsets",
        "query_start_loc",
        "seq_lens",
        "block_tables",
    ],
)
def attend_tiles(
    query,
    keys,
    values,
    output,
    lse,
    sinks,
    tile_requests,
    tile_offsets,
    query_start_loc,
    seq_lens,
    block_tables,
    scale,
    softcap,
    window,
    num_splits,
    num_tokens,
    stride_token,
    stride_head,
    stride_table,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DIMS: tl.constexpr,
    WINDOWED: tl.constexpr,
    CAPPED: tl.constexpr,
):
    """Compute tile ``program_id(0)`` for key head ``program_id(1)``, part ``program_id(2)``."""
    tile, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    request, offset = tl.load(tile_requests + tile), tl.load(tile_offsets + tile)
    start, num_queries, past = _lengths(query_start_loc, seq_lens, request)
    rows, dims = tl.arange(0, ROWS), tl.arange(0, DIMS)
    place = offset + rows // GROUP
    is_row = (rows < ROWS // GROUP * GROUP) & (place < num_queries)
    is_element = is_row[:, None] & (dims < HEAD_SIZE)[None, :]
    token, head = (start + place).to(tl.int64), kv_head * GROUP + rows % GROUP
    where = token[:, None] * stride_token + head[:, None] * stride_head + dims[None, :]
    q = tl.load(query + where, mask=is_element, other=0.0)

    end = past + tl.minimum(offset + ROWS // GROUP, num_queries)
    begin, low, high = _part(past + offset, end, window, split, num_splits, COLUMNS, WINDOWED)
    best, total = _before_keys(sinks, head, is_row, split, ROWS)
    weighted = tl.zeros([ROWS, DIMS], tl.float32)
    blocks = block_tables + request.to(tl.int64) * stride_table
    for n in range(low, high, COLUMNS):
        at = n + tl.arange(0, COLUMNS)
        is_key = (at >= begin) & (at < high)
        cell = _cells(blocks, at, is_key, kv_head, dims, NUM_KV_HEADS, HEAD_SIZE, BLOCK_SIZE)
        # Zeros where no query looks: what lies in an unused slot may be NaN.
        is_cell = is_key[:, None] & (dims < HEAD_SIZE)[None, :]
        k = tl.load(keys + cell, mask=is_cell, other=0.0)
        score = _scores(q, k, at, is_key, past + place, scale, softcap, window, WINDOWED, CAPPED)
        v = tl.load(values + cell, mask=is_cell, other=0.0)
        best, total, weighted = _accumulate(score, v, best, total, weighted)

    row = (split.to(tl.int64) * num_tokens + token) * (NUM_KV_HEADS * GROUP) + head
    _store(output, lse, row, dims, is_row, is_element, best, total, weighted, HEAD_SIZE)


@triton.jit
def _lengths(query_start_loc, seq_lens, request):
    """A request's first token in the batch, its queries, and the tokens before these."""
    start = tl.load(query_start_loc + request)
    num_queries = tl.load(query_start_loc + request + 1) - start
    return start, num_queries, tl.load(seq_lens + request) - num_queries


@triton.jit
def _part(position, end, window, split, num_splits, COLUMNS: tl.constexpr, WINDOWED: tl.constexpr):
    """Return the start of a tile's common keys, and the bounds of this part of them.

    Parts are whole columns, so that the first may begin with keys that no query sees.
    """
    begin = 0
    if WINDOWED:
        begin = tl.maximum(position + 1 - window, 0)
    first = begin // COLUMNS * COLUMNS
    width = tl.cdiv(tl.cdiv(end - first, COLUMNS), num_splits) * COLUMNS
    low = first + split * width
    return begin, low, tl.minimum(low + width, end)


@triton.jit
def _before_keys(sinks, head, is_row, split, ROWS: tl.constexpr):
    """Greatest score so far and sum of weights: nothing, or a sink, in the first part."""
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    if sinks is not None:
        sink = tl.load(sinks + head, mask=is_row, other=0.0).to(tl.float32) * 1.4426950408889634
        best = tl.where(split == 0, sink, best)
        total = tl.where(split == 0, 1.0, total)
    return best, total


@triton.jit
def _cells(
    blocks,
    at,
    is_key,
    kv_head,
    dims,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Return the addresses of the elements of some positions' keys."""
    block = tl.load(blocks + at // BLOCK_SIZE, mask=is_key, other=0)
    slot = block.to(tl.int64) * BLOCK_SIZE + at % BLOCK_SIZE
    return (slot[:, None] * NUM_KV_HEADS + kv_head) * HEAD_SIZE + dims[None, :]


@triton.jit
def _scores(
    q, k, at, is_key, position, scale, softcap, window, WINDOWED: tl.constexpr, CAPPED: tl.constexpr
):
    """Scores in units of log 2, minus infinity where a row does not see a key."""
    score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    if CAPPED:  # softcap * tanh(score / softcap)
        score = softcap * (2.0 * tl.sigmoid(2.0 * score / softcap) - 1.0)
    seen = is_key[None, :] & (at[None, :] <= position[:, None])
    if WINDOWED:
        seen = seen & (at[None, :] > position[:, None] - window)
    return tl.where(seen, score * 1.4426950408889634, float("-inf"))


@triton.jit
def _accumulate(score, v, best, total, weighted):
    """Take some more keys into the softmax; what came before is scaled down."""
    better = tl.maximum(best, tl.max(score, 1))
    base = tl.where(better == float("-inf"), 0.0, better)
    weight, decay = tl.exp2(score - base[:, None]), tl.exp2(best - base)
    weighted = weighted * decay[:, None]
    weighted += tl.dot(weight.to(v.dtype), v, input_precision="ieee")
    return better, total * decay + tl.sum(weight, 1), weighted


@triton.jit
def _store(
    output, lse, row, dims, is_row, is_element, best, total, weighted, HEAD_SIZE: tl.constexpr
):
    """Write answers and, of a part, what it weighs; one without keys weighs nothing."""
    divisor = tl.where(total > 0.0, total, 1.0)
    answer = (weighted / divisor[:, None]).to(output.dtype.element_ty)
    tl.store(output + row[:, None] * HEAD_SIZE + dims[None, :], answer, mask=is_element)
    if lse is not None:
        size = tl.where(total > 0.0, best + tl.log2(divisor), float("-inf"))
        tl.store(lse + row, size, mask=is_row)


@triton.jit(do_not_specialize=["num_splits", "num_rows"], do_not_specialize_on_alignment=["lse"])
def merge_splits(
    parts, lse, output, num_splits, num_rows, HEAD_SIZE: tl.constexpr, DIMS: tl.constexpr
):
    """Merge the parts of row ``program_id(0)``, one head of one token.

    ``parts`` is the output of ``attend_tiles``; there are ``num_rows`` tokens times heads.
    """
    row = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, DIMS)
    is_dim = dims < HEAD_SIZE
    best = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    merged = tl.zeros([DIMS], tl.float32)
    for split in range(num_splits):
        at = row + split * tl.cast(num_rows, tl.int64)
        size = tl.load(lse + at + tl.arange(0, 1))
        better = tl.maximum(best, size)
        base = tl.where(better == float("-inf"), 0.0, better)
        decay, weight = tl.exp2(best - base), tl.exp2(size - base)
        part = tl.load(parts + at * HEAD_SIZE + dims, mask=is_dim, other=0.0)
        merged = merged * decay + weight * part
        total = total * decay + weight
        best = better
    answer = (merged / total).to(output.dtype.element_ty)
    tl.store(output + row * HEAD_SIZE + dims, answer, mask=is_dim)
