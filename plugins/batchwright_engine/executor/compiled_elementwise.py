"""Elementwise operations of a decoder, compiled by numba for a CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numba import carray

from batchwright_engine.compiled.compiling import compiled_work
from batchwright_engine.compiled.floats import (
    LOG2_E,
    as_word,
    exp2,
    float_of,
    is_half,
    narrow,
    numbers_at,
    widen,
)
from batchwright_engine.compiled.team import rows_of, share_rows

__all__ = ["gate_by_silu", "normalise", "rotate_heads"]

_ONE = np.float32(1.0)


def normalise(x: torch.Tensor, gain: torch.Tensor, eps: float) -> torch.Tensor:
    """Root mean square norm of each row.

    Args:
        x: ``[..., size]``, contiguous.
        gain: ``[size]``, of the type of x or float32.
        eps: Added to the mean square.

    Raises:
        ValueError: The gain is of another size or type: its address does not say so.
    """
    size, result = x.shape[-1], torch.empty_like(x)
    if gain.shape != (size,) or gain.dtype not in (x.dtype, torch.float32):
        raise ValueError(
            f"a norm over {size} numbers in {x.dtype} takes a gain of [{size}], "
            f"not {list(gain.shape)} in {gain.dtype}"
        )
    gain = gain.contiguous()
    addresses = x.data_ptr(), gain.data_ptr(), result.data_ptr()
    arguments = (size, as_word(eps), *addresses)
    work = _normalise(is_half(x.dtype), is_half(gain.dtype))
    share_rows(work, x.numel() // size, size, *arguments)
    return result


def rotate_heads(
    heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, rotary_size: int
) -> None:
    """Turn heads in place; see ``elementwise.rotate``."""
    num_tokens, num_heads, size = heads.shape
    shape = heads.stride(0), num_heads, size, rotary_size
    addresses = heads.data_ptr(), cosines.data_ptr(), sines.data_ptr()
    share_rows(_rotate(is_half(heads.dtype)), num_tokens, num_heads * size, *shape, *addresses)


def gate_by_silu(gate_up: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * up`` where a row is a gate and then what it gates.

    Args:
        gate_up: ``[num_rows, 2 * size]``, contiguous.
    """
    num_rows, size = gate_up.shape[0], gate_up.shape[1] // 2
    result = gate_up.new_empty(num_rows, size)
    addresses = gate_up.data_ptr(), result.data_ptr()
    share_rows(_gate(is_half(gate_up.dtype)), num_rows, 4 * size, size, *addresses)
    return result


@cache
def _normalise(is_half: int, is_half_gain: int) -> Any:
    def normalise_rows(arguments: Any, part: int) -> None:
        begin, stop = rows_of(arguments, part)
        _, _, size, eps, x_at, gain_at, result_at = carray(arguments, (7,))
        x = numbers_at(x_at, stop * size, is_half)
        gain = numbers_at(gain_at, size, is_half_gain)
        result = numbers_at(result_at, stop * size, is_half)
        for row in range(begin, stop):
            inputs, outputs = x[row * size :][:size], result[row * size :][:size]
            total = np.float32(0.0)
            for i in range(size):
                element = widen(inputs[i])
                total += element * element
            factor = _ONE / np.sqrt(total / np.float32(size) + float_of(eps))
            for i in range(size):
                outputs[i] = narrow(widen(inputs[i]) * factor * widen(gain[i]), result)

    return compiled_work(normalise_rows, variant=f"_{is_half}_{is_half_gain}")


@cache
def _rotate(is_half: int) -> Any:
    def rotate_rows(arguments: Any, part: int) -> None:
        begin, stop = rows_of(arguments, part)
        _, _, step, num_heads, size, rotary_size, heads_at, cosines_at, sines_at = carray(
            arguments, (9,)
        )
        heads = numbers_at(heads_at, (stop - 1) * step + num_heads * size, is_half)
        cosines = numbers_at(cosines_at, stop * size, is_half)
        sines = numbers_at(sines_at, stop * size, is_half)
        half = rotary_size // 2
        for token in range(begin, stop):
            cosine = cosines[token * size :][:half]
            sine = sines[token * size + half :][:half]
            for head in range(num_heads):
                first = token * step + head * size
                left, right = heads[first : first + half], heads[first + half :][:half]
                for i in range(half):
                    before, after = widen(left[i]), widen(right[i])
                    c, s = widen(cosine[i]), widen(sine[i])
                    left[i] = narrow(before * c - after * s, heads)
                    right[i] = narrow(after * c + before * s, heads)

    return compiled_work(rotate_rows, variant=f"_{is_half}")


@cache
def _gate(is_half: int) -> Any:
    def gate_rows(arguments: Any, part: int) -> None:
        begin, stop = rows_of(arguments, part)
        _, _, size, gate_up_at, result_at = carray(arguments, (5,))
        gate_up = numbers_at(gate_up_at, stop * 2 * size, is_half)
        result = numbers_at(result_at, stop * size, is_half)
        for row in range(begin, stop):
            gates, ups = gate_up[row * 2 * size :][:size], gate_up[row * 2 * size + size :][:size]
            outputs = result[row * size :][:size]
            for i in range(size):
                gate = widen(gates[i])
                silu = gate / (_ONE + exp2(-gate * LOG2_E))
                outputs[i] = narrow(silu * widen(ups[i]), result)

    return compiled_work(gate_rows, variant=f"_{is_half}")
