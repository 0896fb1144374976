"""Numbers of 16 bits, and powers of two, for functions that numba compiles.

bfloat16 is the upper half of a float32; arrays of it are arrays of uint16 here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LOG2_E", "as_numpy", "as_rows", "exp2", "narrow", "widen"]

LOG2_E = np.float32(1.4426950408889634)

_FLOAT, _WORD = ir.FloatType(), ir.IntType(32)
_LEAST, _MOST = np.float32(-126.0), np.float32(127.0)
_BIAS, _MANTISSA = np.int32(127), np.int32(23)
# 2 ** x for x in 0..1: the polynomial through its Chebyshev nodes, off by at most 1e-7
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = np.array(
    [1.0, 0.693146944, 0.240230456, 0.0554806292, 0.00968418643, 0.00123913318, 0.000218657849],
    np.float32,
)


def as_numpy(tensor: torch.Tensor) -> NDArray[Any]:
    """A tensor's own memory as an array: float32, or uint16 for bfloat16."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    return tensor.numpy()


def as_rows(tokens: torch.Tensor) -> tuple[NDArray[Any], int]:
    """The memory of ``[num_tokens, num_heads, size]``, flat, whatever lies between tokens.

    Returns:
        The array, and how many elements lie from one token to the next.
    """
    num_tokens, num_heads, size = tokens.shape
    if tokens.stride()[1:] != (size, 1):
        tokens = tokens.contiguous()
    step = tokens.stride(0)
    length = (num_tokens - 1) * step + num_heads * size
    return as_numpy(tokens.as_strided((length,), (1,))), step


@intrinsic
def _as_float(_context: Any, _bits: Any) -> Any:
    """The float32 that these bits are."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _FLOAT)

    return types.float32(types.uint32), generate


@intrinsic
def widen(_context: Any, number: Any) -> Any:
    """An element of an array as float32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if number == types.float32:
            return arguments[0]
        bits = builder.shl(builder.zext(arguments[0], _WORD), _word(16))
        return builder.bitcast(bits, _FLOAT)

    return types.float32(number), generate


@intrinsic
def narrow(_context: Any, number: Any, array: Any) -> Any:
    """A float32 as an element of an array: the nearest, the even one of two as near."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if array.dtype == types.float32:
            return arguments[0]
        bits = builder.bitcast(arguments[0], _WORD)
        is_odd = builder.and_(builder.lshr(bits, _word(16)), _word(1))
        rounded = builder.add(builder.add(bits, _word(0x7FFF)), is_odd)
        is_nan = builder.fcmp_unordered("uno", arguments[0], arguments[0])
        chosen = builder.select(is_nan, _word(0x7FC0_0000), rounded)
        return builder.trunc(builder.lshr(chosen, _word(16)), ir.IntType(16))

    return array.dtype(number, array), generate


def _word(value: int) -> Any:
    return ir.Constant(_WORD, value)


@njit(inline="always")
def exp2(x: Any) -> Any:
    """2 ** x in float32, in operations that go well side by side; 0 below -126."""
    near = min(max(x, _LEAST), _MOST)
    whole = np.floor(near)
    rest = near - whole
    power = _C5 + rest * _C6
    power = _C4 + rest * power
    power = _C3 + rest * power
    power = _C2 + rest * power
    power = _C1 + rest * power
    power = _C0 + rest * power
    scaled = power * _as_float(np.uint32((np.int32(whole) + _BIAS) << _MANTISSA))
    return np.float32(0.0) if x < _LEAST else scaled
