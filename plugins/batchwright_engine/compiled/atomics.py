"""Data that threads share: atomic numbers, and functions by their addresses."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["WORK", "add_at", "call_work", "load_at", "store_at", "swap_at", "yield_core"]

WORK = types.void(types.CPointer(types.int64), types.int64)
"""The work of threads: a function of its arguments and of the part to do."""

_LONG = ir.IntType(64)
_ORDER = "seq_cst"

yield_core = types.ExternalFunction("sched_yield", types.int32())
"""Let another thread have the core, if one waits for it."""


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


@intrinsic
def load_at(_context: Any, words: Any, index: Any) -> Any:
    """A word as it is now."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(place, _ORDER, 8)

    return types.int64(words, types.intp), generate


@intrinsic
def store_at(_context: Any, words: Any, index: Any, value: Any) -> Any:
    """Set a word, after all that was stored before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], place, _ORDER, 8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.int64), generate


@intrinsic
def add_at(_context: Any, words: Any, index: Any, value: Any) -> Any:
    """Add to a word; gives what it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        return builder.atomic_rmw("add", place, arguments[2], _ORDER)

    return types.int64(words, types.intp, types.int64), generate


@intrinsic
def swap_at(_context: Any, words: Any, index: Any, expected: Any, value: Any) -> Any:
    """Set a word if it is what is expected; says whether it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        found = builder.cmpxchg(place, *arguments[2:], _ORDER, _ORDER)
        return builder.extract_value(found, 1)

    return types.boolean(words, types.intp, types.int64, types.int64), generate


@intrinsic
def call_work(_context: Any, function: Any, arguments: Any, part: Any) -> Any:
    """Call a function of the type WORK by its address, with the address of its arguments."""

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        words = _LONG.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [words, _LONG]).as_pointer()
        work = builder.inttoptr(given[0], kind)
        builder.call(work, [builder.inttoptr(given[1], words), given[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate
