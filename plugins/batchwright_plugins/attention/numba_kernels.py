"""Functions over the paged cache that numba compiles for the CPU at hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import prange

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
        is_parallel: Whether parts are spread over threads.

    Returns:
        A function of

        - query: flat, ``[num_query_heads, head_size]`` a token
        - query_step: elements from one token to the next
        - cache: flat, ``[2 * num_kv_heads, num_slots, head_size]``, keys before values
        - num_slots
        - values: where in the cache values begin
        - block_tables: ``[num_reqs, max_blocks]``
        - block_size
        - segments: ``[num_segments, 5]``: request, its token, key head, first key, behind
          the last one
        - parts: ``[num_parts + 1]``, first segment of each
        - scale, softcap: of scores; softcap 0: none
        - scores: ``[num_parts, group_size * most_keys]``, room
        - peaks, totals: ``[num_segments, group_size]``, set to the largest score of each
          query head in bits (times log2 e), and the sum of the weights relative to it
        - sums: ``[num_segments, group_size * head_size]``, set to the weighted values
    """
    num, size = group_size, head_size

    def attend(
        query: Any,
        query_step: int,
        cache: Any,
        num_slots: int,
        values: int,
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
        for part in prange(parts.shape[0] - 1):
            room = scores[part]
            most = room.shape[0] // num
            queries = np.empty(num * size, np.float32)
            for place in range(parts[part], parts[part + 1]):
                request, token, head, begin, end = segments[place]
                first = token * query_step + head * num * size
                for i in range(num * size):
                    queries[i] = widen(query[first + i]) * scale
                base = head * num_slots
                at = begin
                while at < end:
                    inside = at % block_size
                    count = min(block_size - inside, end - at)
                    slot = np.int64(block_tables[request, at // block_size]) * block_size + inside
                    row = (base + slot) * size
                    ahead = at + count
                    if ahead < end:
                        later = np.int64(block_tables[request, ahead // block_size]) * block_size
                        fetch_rows(cache, (base + later) * size, min(block_size, end - ahead), size)
                    fetch_rows(cache, values + row, count, size)
                    multiply_rows(queries, cache, row, count, room, at - begin, most, num, size)
                    at += count
                for i in range(num):
                    some = room[i * most : i * most + end - begin]
                    if softcap > 0:
                        for k in range(some.shape[0]):
                            wave = exp2(some[k] * (_TWO * LOG2_E / softcap))
                            some[k] = softcap - _TWO * softcap / (wave + _ONE)
                    peak = np.float32(-np.inf)
                    for k in range(some.shape[0]):
                        peak = max(peak, some[k])
                    total = np.float32(0.0)
                    for k in range(some.shape[0]):
                        weight = exp2((some[k] - peak) * LOG2_E)
                        some[k] = weight
                        total += weight
                    peaks[place, i] = peak * LOG2_E
                    totals[place, i] = total
                result = sums[place]
                result[:] = 0
                at = begin
                while at < end:
                    inside = at % block_size
                    count = min(block_size - inside, end - at)
                    slot = np.int64(block_tables[request, at // block_size]) * block_size + inside
                    row = values + (base + slot) * size
                    add_weighted_rows(result, cache, row, count, room, at - begin, most, num, size)
                    at += count

    return compiled(attend, is_parallel=is_parallel)


@compiled
def merge_segments(
    segments: Any, firsts: Any, peaks: Any, totals: Any, sums: Any, sinks: Any, output: Any
) -> None:
    """Put the segments of each token and key head together.

    Args:
        segments: See ``attend_kernel``.
        firsts: ``[num_tasks + 1]``, first segment of each token and key head.
        peaks: See ``attend_kernel``.
        totals: See ``attend_kernel``.
        sums: See ``attend_kernel``.
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
