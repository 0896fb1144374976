"""Paged attention in Triton: one kernel for decodes, prefills, chunks of them, all mixed.

A program computes a *tile*: some consecutive queries of one request and the query heads
that share one key head, over one part of the keys that these queries see. Its rows are
queries times heads, so that a decode of a model with grouped heads reads each key once.
The softmax is computed on the way (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018; Dao et al., "FlashAttention", 2022). Where the tiles are
too few to fill the GPU, keys are split into parts, and a second kernel merges them (Dao
et al., "Flash-Decoding", 2023).
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["attend_tiles", "merge_splits"]


@triton.jit
def attend_tiles(
    query,  # [num_tokens, num_query_heads, head_size], last dimension dense
    keys,  # [num_slots, num_kv_heads, head_size], dense
    values,
    output,  # [num_splits, num_tokens, num_query_heads, head_size], dense
    lse,  # [num_splits, num_tokens, num_query_heads] float32; None: one part only
    sinks,  # [num_query_heads]; None: none
    tile_requests,  # [num_tiles] int32
    tile_offsets,  # [num_tiles] int32, a tile's first query, in its request
    query_start_loc,  # [num_reqs + 1] int32
    seq_lens,  # [num_reqs] int32
    block_tables,  # [num_reqs, max_blocks] int32
    scale,
    softcap,
    window,  # tokens that a query sees, itself included
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
    LOG2E: tl.constexpr = 1.4426950408889634
    TILE: tl.constexpr = ROWS // GROUP
    tile, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    request = tl.load(tile_requests + tile)
    offset = tl.load(tile_offsets + tile)
    start = tl.load(query_start_loc + request)
    num_queries = tl.load(query_start_loc + request + 1) - start
    past = tl.load(seq_lens + request) - num_queries

    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, DIMS)
    columns = tl.arange(0, COLUMNS)
    place = offset + rows // GROUP
    is_row = (rows < TILE * GROUP) & (place < num_queries)
    position = past + place
    token = (start + place).to(tl.int64)
    head = kv_head * GROUP + rows % GROUP
    is_element = is_row[:, None] & (dims < HEAD_SIZE)[None, :]
    where = token[:, None] * stride_token + head[:, None] * stride_head + dims[None, :]
    q = tl.load(query + where, mask=is_element, other=0.0)

    # What the tile's queries see together, and which part of it is this program's.
    end = past + tl.minimum(offset + TILE, num_queries)
    begin = 0
    if WINDOWED:
        begin = tl.maximum(past + offset + 1 - window, 0)
    first = begin // COLUMNS * COLUMNS
    width = tl.cdiv(tl.cdiv(end - first, COLUMNS), num_splits) * COLUMNS
    low = first + split * width
    high = tl.minimum(low + width, end)

    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    if sinks is not None:  # a logit without a value: the first part counts it
        sink = tl.load(sinks + head, mask=is_row, other=0.0).to(tl.float32) * LOG2E
        best = tl.where(split == 0, sink, best)
        total = tl.where(split == 0, 1.0, total)
    weighted = tl.zeros([ROWS, DIMS], tl.float32)
    for n in range(low, high, COLUMNS):
        at = n + columns
        is_key = (at >= begin) & (at < high)
        block = tl.load(
            block_tables + request.to(tl.int64) * stride_table + at // BLOCK_SIZE,
            mask=is_key,
            other=0,
        )
        slot = block.to(tl.int64) * BLOCK_SIZE + at % BLOCK_SIZE
        cell = (slot[:, None] * NUM_KV_HEADS + kv_head) * HEAD_SIZE + dims[None, :]
        # Zeros where nobody looks: what lies there may be NaN.
        is_cell = is_key[:, None] & (dims < HEAD_SIZE)[None, :]
        k = tl.load(keys + cell, mask=is_cell, other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if CAPPED:  # softcap * tanh(score / softcap)
            score = softcap * (2.0 * tl.sigmoid(2.0 * score / softcap) - 1.0)
        seen = is_key[None, :] & (at[None, :] <= position[:, None])
        if WINDOWED:
            seen = seen & (at[None, :] > position[:, None] - window)
        score = tl.where(seen, score * LOG2E, float("-inf"))
        better = tl.maximum(best, tl.max(score, 1))
        base = tl.where(better == float("-inf"), 0.0, better)
        weight = tl.exp2(score - base[:, None])
        decay = tl.exp2(best - base)
        v = tl.load(values + cell, mask=is_cell, other=0.0)
        weighted = weighted * decay[:, None]
        weighted += tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        total = total * decay + tl.sum(weight, 1)
        best = better

    divisor = tl.where(total > 0.0, total, 1.0)
    row = (split.to(tl.int64) * num_tokens + token) * (NUM_KV_HEADS * GROUP) + head
    answer = (weighted / divisor[:, None]).to(output.dtype.element_ty)
    tl.store(output + row[:, None] * HEAD_SIZE + dims[None, :], answer, mask=is_element)
    if lse is not None:
        size = tl.where(total > 0.0, best + tl.log2(divisor), float("-inf"))
        tl.store(lse + row, size, mask=is_row)


@triton.jit
def merge_splits(
    parts,  # [num_splits, num_tokens, num_query_heads, head_size] float32
    lse,  # [num_splits, num_tokens, num_query_heads] float32, base 2
    output,  # [num_tokens, num_query_heads, head_size]
    num_splits,
    num_rows,  # num_tokens * num_query_heads
    HEAD_SIZE: tl.constexpr,
    DIMS: tl.constexpr,
):
    """Merge the parts of row ``program_id(0)``, one head of one token."""
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
