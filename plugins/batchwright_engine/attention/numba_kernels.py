"""Functions over the paged cache that numba compiles for the CPU at hand.

Their arguments, in order; an address is that of float32, or of the model's type ("numbers"):

=============  =========================================================================
word           what it is
=============  =========================================================================
query          address of numbers, ``[num_query_heads, head_size]`` a token
query_step     elements from one token to the next
cache          address of numbers, ``[2 * num_kv_heads, num_slots, head_size]``, keys first
num_kv_heads   key heads
num_slots      tokens that the cache has room for
block_tables   address of int32, ``[num_reqs, max_blocks]``
max_blocks     columns of it
block_size     tokens a block
segments       address of int64, ``[num_segments, 6]``: request, its token, key head, first
               key, behind the last one, 1 if these are all of its keys
num_segments   rows of it
parts          address of int64, ``[num_parts + 1]``, first segment of each part
scale          factor on the scores
softcap        cap of the scores; 0: none
sinks          address, ``[num_query_heads]`` extra logits; minus infinity: none
scores         address, ``[num_parts, group_size * most_keys]``, room
most_keys      keys of the longest segment
peaks          address, ``[num_segments, group_size]``, largest scores, times log2 e
totals         address, ``[num_segments, group_size]``, the sum of the weights beside it
sums           address, ``[num_segments, group_size * head_size]``, the weighted values
output         address of numbers, ``[num_tokens, num_query_heads, head_size]``
=============  =========================================================================
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray, njit

from batchwright_engine.compiled.compiling import compiled_work
from batchwright_engine.compiled.floats import (
    LOG2_E,
    exp2,
    float_of,
    floats_at,
    indices_at,
    narrow,
    numbers_at,
    words_at,
)
from batchwright_engine.compiled.rows import add_weighted_rows, fetch_rows, multiply_rows
from batchwright_engine.compiled.team import rows_of

__all__ = ["attend_work", "merge_work", "write_work"]
_ONE, _TWO = np.float32(1.0), np.float32(2.0)
_FLOAT_BYTES, _INDEX_BYTES, _WORD_BYTES = 4, 4, 8


@cache
def write_work(is_half: int) -> Any:
    """Store tokens' keys and values; to be shared out by tokens.

    Behind what ``rows_of`` reads come the cache's address, key heads, slots, head size
    and block size, the address of ``[num_tokens]`` slots, in which a request's tokens
    follow each other, and addresses of keys and values, each with the elements from one
    token to the next. If the first slot of a block is written, those at its end that are
    not are set to zero: what lay there may be NaN, and NaN times a weight of zero is NaN.

    Args:
        is_half: 1: numbers are bfloat16; 0: float32.
    """

    def write_tokens(arguments: Any, part: int) -> None:
        begin, stop = rows_of(arguments, part)
        words = carray(arguments, (12,))
        num_tokens, _, cache_at, num_heads, num_slots, size, block_size = words[:7]
        slots_at, key_at, key_step, value_at, value_step = words[7:]
        cache = numbers_at(cache_at, 2 * num_heads * num_slots * size, is_half)
        slots = words_at(slots_at, num_tokens)
        keys = numbers_at(key_at, (stop - 1) * key_step + num_heads * size, is_half)
        values = numbers_at(value_at, (stop - 1) * value_step + num_heads * size, is_half)
        for token in range(begin, stop):  # a head's row is far from the others: ask for all
            for half in range(2 * num_heads):
                fetch_rows(cache, (half * num_slots + slots[token]) * size, 1, size)
        for token in range(begin, stop):
            slot = slots[token]
            end, unused = slot - slot % block_size + block_size, _unused(slots, token, block_size)
            for head in range(num_heads):
                row, other = head * num_slots, (num_heads + head) * num_slots
                first = token * key_step + head * size
                cache[(row + slot) * size :][:size] = keys[first : first + size]
                first = token * value_step + head * size
                cache[(other + slot) * size :][:size] = values[first : first + size]
                if unused:
                    cache[(row + end - unused) * size : (row + end) * size] = 0
                    cache[(other + end - unused) * size : (other + end) * size] = 0

    return compiled_work(write_tokens, variant=f"_{is_half}")


@njit(inline="always")
def _unused(slots: Any, token: Any, block_size: Any) -> Any:
    """Slots at the end of a block that this token begins, and no other one here fills."""
    slot = slots[token]
    if slot % block_size:
        return 0
    count = 1
    while (
        count < block_size
        and token + count < slots.shape[0]
        and slots[token + count] == slot + count
    ):
        count += 1
    return block_size - count


@cache
def attend_work(is_half: int, group_size: int, head_size: int) -> Any:
    """Attention of single tokens over segments of their keys, for one model's heads.

    Where a segment is all that a token sees, it sets the output; otherwise peaks, totals
    and sums. Its parts are those of ``parts``.

    Args:
        is_half: 1: numbers are bfloat16; 0: float32.
        group_size: Query heads that share a key head.
        head_size: Elements a head.
    """
    num, size = group_size, head_size

    def attend(arguments: Any, part: int) -> None:
        words = carray(arguments, (20,))
        query_at, query_step, cache_at, num_heads, num_slots = words[:5]
        tables_at, max_blocks, block_size, segments_at, _ = words[5:10]
        parts_at, scale, softcap, sinks_at, scores_at = words[10:15]
        most, peaks_at, totals_at, sums_at, output_at = words[15:]
        cache = numbers_at(cache_at, 2 * num_heads * num_slots * size, is_half)
        sinks = floats_at(sinks_at, num_heads * num)
        room = floats_at(scores_at + part * num * most * _FLOAT_BYTES, num * most)
        first_place, last_place = words_at(parts_at + part * _WORD_BYTES, 2)
        for place in range(first_place, last_place):
            segment_at = segments_at + place * 6 * _WORD_BYTES
            request, token, head, begin, end, is_whole = words_at(segment_at, 6)
            first = token * query_step + head * num * size
            queries = numbers_at(query_at, first + num * size, is_half)[first:]
            table = indices_at(tables_at + request * max_blocks * _INDEX_BYTES, max_blocks)
            keys, values = head * num_slots * size, (num_heads + head) * num_slots * size
            _score(queries, cache, keys, values, table, block_size, begin, end, room, num, size)
            peaks = floats_at(peaks_at + place * num * _FLOAT_BYTES, num)
            totals = floats_at(totals_at + place * num * _FLOAT_BYTES, num)
            sums = floats_at(sums_at + place * num * size * _FLOAT_BYTES, num * size)
            for i in range(num):
                some = room[i * most : i * most + end - begin]
                peaks[i], totals[i] = _weigh(some, float_of(scale), float_of(softcap))
            _add_up(sums, cache, values, table, block_size, begin, end, room, num, size)
            if is_whole:
                start = (token * num_heads + head) * num
                output = numbers_at(output_at, (start + num) * size, is_half)
                _put(output, start * size, sums, peaks, totals, sinks[head * num :], num, size)

    return compiled_work(attend, variant=f"_{is_half}_{num}_{size}")


@njit(inline="always")
def _share(peak: Any, total: Any, sink: Any) -> Any:
    """Factor on weighted values, so that all weights and the sink's add up to one."""
    most = max(peak, sink * LOG2_E)
    factor = exp2(peak - most)
    return factor / (factor * total + exp2(sink * LOG2_E - most))


@njit(inline="always")
def _put(
    output: Any, at: Any, sums: Any, peaks: Any, totals: Any, sinks: Any, num: Any, size: Any
) -> None:
    """Store the weighted means of a token's query heads that share a key head."""
    for i in range(num):
        share = _share(peaks[i], totals[i], sinks[i])
        for j in range(i * size, (i + 1) * size):
            output[at + j] = narrow(sums[j] * share, output)


@njit(inline="always")
def _slot(block_table: Any, key: Any, block_size: Any) -> Any:
    """Return the slot of a request's key in the cache."""
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
def _weigh(scores: Any, scale: Any, softcap: Any) -> Any:
    """Make weights of products; gives the largest score (times log2 e) and the weights' sum."""
    for k in range(scores.shape[0]):
        scores[k] *= scale
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


@cache
def merge_work(is_half: int, group_size: int, head_size: int) -> Any:
    """Put the segments of a token and key head together; a part is one that was cut.

    Behind the words of ``attend_work`` comes the address of int64 ``[num_cut, 2]``: the
    first segment of each, and behind its last one.
    """
    num, size = group_size, head_size

    def merge(arguments: Any, part: int) -> None:
        words = carray(arguments, (21,))
        num_heads, segments_at, sinks_at = words[3], words[8], words[13]
        peaks_at, totals_at, sums_at, output_at, cut_at = words[16:21]
        begin, end = words_at(cut_at + part * 2 * _WORD_BYTES, 2)
        _, token, head, _, _, _ = words_at(segments_at + begin * 6 * _WORD_BYTES, 6)
        sinks = floats_at(sinks_at, num_heads * num)
        peaks, totals = floats_at(peaks_at, end * num), floats_at(totals_at, end * num)
        sums = floats_at(sums_at, end * num * size)
        first = begin * num
        for place in range(first + num, end * num):  # into what the first segment has
            i = first + place % num
            peak = max(peaks[i], peaks[place])
            factor, other = exp2(peaks[i] - peak), exp2(peaks[place] - peak)
            peaks[i], totals[i] = peak, factor * totals[i] + other * totals[place]
            for j in range(size):
                mine, others = i * size + j, place * size + j
                sums[mine] = factor * sums[mine] + other * sums[others]
        start = (token * num_heads + head) * num
        output = numbers_at(output_at, (start + num) * size, is_half)
        peaks, totals, sums = peaks[first:], totals[first:], sums[first * size :]
        _put(output, start * size, sums, peaks, totals, sinks[head * num :], num, size)

    return compiled_work(merge, variant=f"_{is_half}_{num}_{size}")
