"""What a decoder does to each token beside products, compiled by numba for a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchwright_plugins.compiled.compiling import compiled
from batchwright_plugins.compiled.floats import LOG2_E, as_numpy, as_rows, exp2, narrow, widen

__all__ = ["as_numpy", "as_rows", "gate_by_silu", "normalise", "rotate_heads"]

_ONE = np.float32(1.0)


@compiled
def normalise(x: Any, gain: Any, eps: Any, result: Any) -> None:
    """Root mean square norm of each row.

    Args:
        x: ``[num_rows, size]``.
        gain: ``[size]``.
        eps: Added to the mean square.
        result: Like x, set.
    """
    size = x.shape[1]
    for row in range(x.shape[0]):
        total = np.float32(0.0)
        for i in range(size):
            element = widen(x[row, i])
            total += element * element
        factor = _ONE / np.sqrt(total / np.float32(size) + eps)
        for i in range(size):
            result[row, i] = narrow(widen(x[row, i]) * factor * widen(gain[i]), result)


@compiled
def rotate_heads(
    heads: Any, step: int, num_heads: int, cosines: Any, sines: Any, rotary_size: int
) -> None:
    """Turn heads in place; see ``elementwise.rotate``.

    Args:
        heads: Flat, ``[num_heads, head_size]`` a token.
        step: Elements from one token to the next.
        num_heads: How many are turned.
        cosines: ``[num_tokens, 1, head_size]``.
        sines: ``[num_tokens, 1, head_size]``, the first half with the sign turned.
        rotary_size: Elements of each that are turned.
    """
    half, size = rotary_size // 2, cosines.shape[2]
    for token in range(cosines.shape[0]):
        cosine, sine = cosines[token, 0, :half], sines[token, 0, half:rotary_size]
        for head in range(num_heads):
            begin = token * step + head * size
            left, right = heads[begin : begin + half], heads[begin + half : begin + rotary_size]
            for i in range(half):
                first, second = widen(left[i]), widen(right[i])
                c, s = widen(cosine[i]), widen(sine[i])
                left[i] = narrow(first * c - second * s, heads)
                right[i] = narrow(second * c + first * s, heads)


@compiled
def gate_by_silu(gate_up: Any, result: Any) -> None:
    """``silu(gate) * up`` where a row is a gate and then what it gates.

    Args:
        gate_up: ``[num_rows, 2 * size]``.
        result: ``[num_rows, size]``, set.
    """
    size = result.shape[1]
    for row in range(result.shape[0]):
        for i in range(size):
            gate, up = widen(gate_up[row, i]), widen(gate_up[row, size + i])
            result[row, i] = narrow(gate * up / (_ONE + exp2(-gate * LOG2_E)), result)
