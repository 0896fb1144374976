"""Functions over the paged cache that numba compiles for the CPU at hand.

=============  =========================================================================
argument       what it is
=============  =========================================================================
query          flat, ``[num_query_heads, head_size]`` a token
query_step     elements from one token to the next
cache          flat, ``[2 * num_kv_heads, num_slots, head_size]``, keys before values
num_slots      tokens that it has room for
block_tables   ``[num_reqs, max_blocks]``
block_size     tokens a block
segments       ``[num_segments, 5]``: request, its token, key head, first key, behind the
               last one
parts          ``[num_parts + 1]``, first segment of each
scale          factor on the scores
softcap        cap of the scores; 0: none
scores         ``[num_parts, group_size * most_keys]``, room
peaks          ``[num_segments, group_size]``, the largest score of each query head, times
               log2 e
totals         ``[num_segments, group_size]``, the sum of the weights relative to it
sums           ``[num_segments, group_size * head_size]``, the weighted values
=============  =========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange

from batchwright_plugins.compiled.compiling import compiled
from batchwright_plugins.compiled.floats import LOG2_E, exp2, narrow, widen
from batchwright_plugins.compiled.rows import add_weighted_rows, fetch_rows, multiply_rows

__all__ = ["attend_kernel", "merge_segments", "write_tokens"]

_ONE, _TWO = np.float32(1.0), np.float32(2.0)


@compiled
def write_tokens(
    cache: Any, block_size: int, slots: Any, key: Any, key_step: int, value: Any, value_step: int
) -> None:
    """Store tokens; with the first one of a block, set the block's other slots to zero.

    What lay there may be NaN, and NaN times a weight of zero is NaN.

    Args:
        cache: ``[2 * num_kv_heads, num_slots, head_size]``, keys before values.
        block_size: Tokens a block.
        slots: ``[num_tokens]``; those of a block are in order.
        key: Flat, ``[num_kv_heads, head_size]`` a token.
        key_step: Elements from one token to the next.
        value: Like key.
        value_step: Like key_step.
    """
    num_heads, size = cache.shape[0] // 2, cache.shape[2]
    flat = cache.reshape(-1)
    for slot in slots:  # each head's row is far from the others: wait for all at once
        for half in range(2 * num_heads):
            fetch_rows(flat, (half * cache.shape[1] + slot) * size, 1, size)
    for token in range(slots.shape[0]):
        slot = slots[token]
        if slot % block_size == 0:
            cache[:, slot + 1 : slot + block_size] = 0
        for head in range(num_heads):
            first, other = token * key_step + head * size, token * value_step + head * size
            cache[head, slot] = key[first : first + size]
            cache[num_heads + head, slot] = value[other : other + size]


@cache
def attend_kernel(group_size: int, head_size: int, is_parallel: bool) -> Callable[..., None]:
    """Attention of single tokens over segments of their keys, for one model's heads.

    Args:
        group_size: Query heads that share a key head.
        head_size: Elements a head.
        is_parallel: Whether parts are spread over threads; otherwise there is one.

    Returns:
        A function of what is listed above, in that order; it sets the last three.
    """
    num, size = group_size, head_size

    def attend(
        query: Any,
        query_step: int,
        cache: Any,
        num_slots: int,
        block_tables: Any,
        block_size: int,
        segments: Any,
        parts: Any,
        scale: Any,
        softcap: Any,
        scores: Any,
        peaks: Any,
        totals: Any,
        sums: Any,
    ) -> None:
        values = cache.shape[0] // 2
        num_parts = parts.shape[0] - 1 if is_parallel else 1  # numba keeps one file for each
        for part in prange(num_parts):
            room = scores[part]
            most = room.shape[0] // num
            queries = np.empty(num * size, np.float32)
            for place in range(parts[part], parts[part + 1]):
                request, token, head, begin, end = segments[place]
                first = token * query_step + head * num * size
                for i in range(num * size):
                    queries[i] = widen(query[first + i]) * scale
                keys = head * num_slots * size
                table = block_tables[request]
                _score(queries, cache, keys, values, table, block_size, begin, end, room, num, size)
                for i in range(num):
                    some = room[i * most : i * most + end - begin]
                    peaks[place, i], totals[place, i] = _weigh(some, softcap)
                _add_up(
                    sums[place],
                    cache,
                    values + keys,
                    table,
                    block_size,
                    begin,
                    end,
                    room,
                    num,
                    size,
                )

    return compiled(attend, is_parallel=is_parallel, variant=f"_{num}_{size}_{is_parallel:d}")


@njit(inline="always")
def _slot(block_table: Any, key: Any, block_size: Any) -> Any:
    """Where in the cache a request's key lies."""
    return np.int64(block_table[key // block_size]) * block_size + key % block_size


@njit(inline="always")
def _score(
    queries: Any,
    cache: Any,
    keys: Any,
    values: Any,
    block_table: Any,
    block_size: Any,
    begin: Any,
    end: Any,
    scores: Any,
    num: Any,
    size: Any,
) -> None:
    """Multiply queries with a segment's keys, and have its values fetched meanwhile."""
    most = scores.shape[0] // num
    at = begin
    while at < end:
        count = min(block_size - at % block_size, end - at)
        row = keys + _slot(block_table, at, block_size) * size
        ahead = at + count
        if ahead < end:
            later = keys + _slot(block_table, ahead, block_size) * size
            fetch_rows(cache, later, min(block_size, end - ahead), size)
        fetch_rows(cache, values + row, count, size)
        multiply_rows(queries, cache, row, count, scores, at - begin, most, num, size)
        at = ahead


@njit(inline="always")
def _add_up(
    result: Any,
    cache: Any,
    values: Any,
    block_table: Any,
    block_size: Any,
    begin: Any,
    end: Any,
    weights: Any,
    num: Any,
    size: Any,
) -> None:
    """Sum up a segment's values, weighted."""
    most = weights.shape[0] // num
    result[:] = 0
    at = begin
    while at < end:
        count = min(block_size - at % block_size, end - at)
        row = values + _slot(block_table, at, block_size) * size
        add_weighted_rows(result, cache, row, count, weights, at - begin, most, num, size)
        at += count


@njit(inline="always")
def _cap(scores: Any, softcap: Any) -> None:
    """``softcap * tanh(score / softcap)``."""
    for k in range(scores.shape[0]):
        wave = exp2(scores[k] * (_TWO * LOG2_E / softcap))
        scores[k] = softcap - _TWO * softcap / (wave + _ONE)


@njit(inline="always")
def _weigh(scores: Any, softcap: Any) -> Any:
    """Make weights of scores; gives the largest score (times log2 e) and the weights' sum."""
    if softcap > 0:
        _cap(scores, softcap)
    peak = np.float32(-np.inf)
    for k in range(scores.shape[0]):
        peak = max(peak, scores[k])
    total = np.float32(0.0)
    for k in range(scores.shape[0]):
        weight = exp2((scores[k] - peak) * LOG2_E)
        scores[k] = weight
        total += weight
    return peak * LOG2_E, total


@compiled
def merge_segments(
    segments: Any, firsts: Any, peaks: Any, totals: Any, sums: Any, sinks: Any, output: Any
) -> None:
    """Put the segments of each token and key head together.

    Args:
        segments: See above.
        firsts: ``[num_tasks + 1]``, first segment of each token and key head.
        peaks: See above.
        totals: See above.
        sums: See above.
        sinks: ``[num_query_heads]`` float32 extra logits; minus infinity: none.
        output: ``[num_tokens, num_query_heads, head_size]``, set at these tokens.
    """
    num, size = peaks.shape[1], output.shape[2]
    mixed = np.empty(size, np.float32)
    for task in range(firsts.shape[0] - 1):
        begin, end = firsts[task], firsts[task + 1]
        token, head = segments[begin, 1], segments[begin, 2]
        for i in range(num):
            sink = sinks[head * num + i] * LOG2_E
            peak = sink
            for place in range(begin, end):
                peak = max(peak, peaks[place, i])
            total = exp2(sink - peak)
            mixed[:] = 0
            for place in range(begin, end):
                factor = exp2(peaks[place, i] - peak)
                total += factor * totals[place, i]
                for j in range(size):
                    mixed[j] += factor * sums[place, i * size + j]
            share = _ONE / total
            for j in range(size):
                output[token, head * num + i, j] = narrow(mixed[j] * share, output)
