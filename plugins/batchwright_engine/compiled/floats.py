"""Numbers at addresses, those of 16 bits among them, for functions that numba compiles.

bfloat16 is the upper half of a float32; arrays of it are arrays of uint16 here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

from .vectors import FLOAT, WORD

__all__ = [
    "LOG2_E",
    "as_word",
    "exp2",
    "float_of",
    "floats_at",
    "indices_at",
    "is_half",
    "narrow",
    "numbers_at",
    "widen",
    "words_at",
]

LOG2_E = np.float32(1.4426950408889634)


_LEAST, _MOST = np.float32(-126.0), np.float32(127.0)
_BIAS, _MANTISSA = np.int32(127), np.int32(23)
# 2 ** x for x in 0..1: the polynomial through its Chebyshev nodes, off by at most 1e-7
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = np.array(
    [1.0, 0.693146944, 0.240230456, 0.0554806292, 0.00968418643, 0.00123913318, 0.000218657849],
    np.float32,
)


def is_half(dtype: torch.dtype) -> int:
    """1 for bfloat16, 0 for float32: for compilers a constant."""
    return int(dtype == torch.bfloat16)


@lru_cache
def as_word(number: float) -> int:
    """A float32 among whole numbers; see ``float_of``."""
    return int(np.float32(number).view(np.int32))


@intrinsic
def _as_float(_context: Any, _bits: Any) -> Any:
    """The float32 that these bits are."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], FLOAT)

    return types.float32(types.uint32), generate


@intrinsic
def widen(_context: Any, number: Any) -> Any:
    """An element of an array as float32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if number == types.float32:
            return arguments[0]
        bits = builder.shl(builder.zext(arguments[0], WORD), _word(16))
        return builder.bitcast(bits, FLOAT)

    return types.float32(number), generate


@intrinsic
def narrow(_context: Any, number: Any, array: Any) -> Any:
    """A float32 as an element of an array: the nearest, the even one of two as near."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if array.dtype == types.float32:
            return arguments[0]
        bits = builder.bitcast(arguments[0], WORD)
        is_odd = builder.and_(builder.lshr(bits, _word(16)), _word(1))
        rounded = builder.add(builder.add(bits, _word(0x7FFF)), is_odd)
        is_nan = builder.fcmp_unordered("uno", arguments[0], arguments[0])
        chosen = builder.select(is_nan, _word(0x7FC0_0000), rounded)
        return builder.trunc(builder.lshr(chosen, _word(16)), ir.IntType(16))

    return array.dtype(number, array), generate


@intrinsic(prefer_literal=True)
def _pointer(_context: Any, address: Any, kind: Any) -> Any:
    kinds = types.float32, types.uint16, types.int32, types.int64
    pointer = types.CPointer(kinds[kind.literal_value])

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.int64, kind), generate


@njit(inline="always")
def numbers_at(address: Any, length: Any, is_half: Any) -> Any:
    """The numbers at an address: of 16 bits if ``is_half`` is 1, float32 if it is 0."""
    return carray(_pointer(address, is_half), (length,))


@njit(inline="always")
def floats_at(address: Any, length: Any) -> Any:
    """The float32 numbers at an address."""
    return carray(_pointer(address, 0), (length,))


@njit(inline="always")
def indices_at(address: Any, length: Any) -> Any:
    """The whole numbers of 32 bits at an address."""
    return carray(_pointer(address, 2), (length,))


@njit(inline="always")
def words_at(address: Any, length: Any) -> Any:
    """The whole numbers of 64 bits at an address."""
    return carray(_pointer(address, 3), (length,))


def _word(value: int) -> Any:
    return ir.Constant(WORD, value)


@njit(inline="always")
def float_of(word: Any) -> Any:
    """The float32 that ``as_word`` made this of."""
    return _as_float(np.uint32(word))


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
