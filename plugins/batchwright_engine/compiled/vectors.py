"""Vectors of the CPU compiled for: how long they are, and what it does with pairs of bfloat16."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.registry import cpu_target

__all__ = ["BFLOAT", "FLOAT", "FLOATS", "LANES", "PAIRS", "WORD", "add_pairs", "has"]

LANES = 16
"""float32 numbers a vector of AVX-512."""


class _BFloat(ir.types._BaseFloatType):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    __str__ = _to_string


_BFloat._create_instance()
BFLOAT = _BFloat()
FLOAT, WORD = ir.FloatType(), ir.IntType(32)
FLOATS = ir.VectorType(FLOAT, LANES)
PAIRS = ir.VectorType(BFLOAT, 2 * LANES)


@cache
def has(feature: str) -> bool:
    """Return True if the CPU has a feature, by LLVM's name for it.

    It is the one at hand, unless ``NUMBA_CPU_NAME`` or ``NUMBA_CPU_FEATURES`` name less: for
    that one, LLVM ends the process where it is to use instructions that it has not.
    """
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return f"+{feature}" in features.split(",")


def add_pairs(builder: Any, total: Any, left: Any, right: Any) -> Any:
    """``total`` plus, in each lane, the two products of pairs (on CPUs with ``avx512bf16``)."""
    kind = ir.FunctionType(FLOATS, [FLOATS, PAIRS, PAIRS])
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, [total, left, right])
