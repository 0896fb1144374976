"""Tiles of matrix products, in the vector registers of a CPU with AVX-512."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .vectors import FLOAT, FLOATS, LANES, PAIRS, WORD, add_pairs

__all__ = ["multiply_tile"]

_WORDS = ir.VectorType(WORD, LANES)


class _Tile:
    """Write the instructions of one tile.

    Args:
        builder: Of the function that it is part of.
        is_half: True if numbers are bfloat16, two of which are multiplied at once.
    """

    def __init__(self, builder: Any, is_half: bool) -> None:
        self._builder = builder
        self._vector = PAIRS if is_half else FLOATS
        self._scalar = WORD if is_half else FLOAT
        self._spread = ir.VectorType(self._scalar, LANES)
        self._is_half = is_half

    def vector(self, pointer: Any) -> Any:
        """Weights of some columns."""
        place = self._builder.bitcast(pointer, self._vector.as_pointer())
        return self._builder.load(place, align=64)

    def everywhere(self, pointer: Any) -> Any:
        """One number of a row, or a pair of them, in all lanes."""
        place = self._builder.bitcast(pointer, self._scalar.as_pointer())
        number = self._builder.load(place, align=4)
        nothing = ir.Constant(self._spread, ir.Undefined)
        first = self._builder.insert_element(nothing, number, ir.Constant(WORD, 0))
        all_the_same = ir.Constant(_WORDS, [0] * LANES)
        vector = self._builder.shuffle_vector(first, nothing, all_the_same)
        return self._builder.bitcast(vector, self._vector)

    def add(self, cell: Any, weights: Any, number: Any) -> None:
        """Add products to a sum."""
        total = self._builder.load(cell)
        if self._is_half:
            total = add_pairs(self._builder, total, number, weights)
        else:
            kind = ir.FunctionType(FLOATS, [FLOATS] * 3)
            name = "llvm.fma.v16f32"
            fma = cgutils.get_or_insert_function(self._builder.module, kind, name)
            total = self._builder.call(fma, [number, weights, total])
        self._builder.store(total, cell)


@intrinsic(prefer_literal=True)
def multiply_tile(
    _context: Any,
    x: Any,
    first: Any,
    step: Any,
    weights: Any,
    begin: Any,
    num_inputs: Any,
    sums: Any,
    num_rows: Any,
    num_vectors: Any,
) -> Any:
    """Products of a few rows with a panel of weights.

    Args:
        x: Flat float32, or uint16 for bfloat16.
        first: Index of the start of the first row in it.
        step: Elements from one row to the next.
        weights: Flat; a panel is ``[num_inputs, columns]``, and for bfloat16
            ``[num_inputs / 2, columns, 2]``.
        begin: Start of the panel, a multiple of 64 bytes.
        num_inputs: Elements of a row; even for bfloat16.
        sums: ``[num_rows * columns]`` float32, set.
        num_rows: A constant.
        num_vectors: Columns in units of LANES; a constant.
    """
    rows, vectors = num_rows.literal_value, num_vectors.literal_value
    pair = 2 if x.dtype == types.uint16 else 1

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def pointer(argument: int, offset: Any) -> Any:
            make = context.make_array(signature.args[argument])
            return builder.gep(make(context, builder, arguments[argument]).data, [offset])

        _, first, step, _, begin, num_inputs, _, _, _ = arguments
        tile = _Tile(builder, pair == 2)
        nothing = ir.Constant(FLOATS, [0.0] * LANES)
        cells = [cgutils.alloca_once_value(builder, nothing) for _ in range(rows * vectors)]
        starts = [builder.add(first, _times(builder, step, row)) for row in range(rows)]
        count = builder.sdiv(num_inputs, ir.Constant(num_inputs.type, pair))
        with cgutils.for_range(builder, count, intp=count.type) as loop:
            at = builder.add(begin, _times(builder, loop.index, pair * LANES * vectors))
            offsets = [ir.Constant(at.type, pair * LANES * i) for i in range(vectors)]
            panel = [tile.vector(pointer(3, builder.add(at, offset))) for offset in offsets]
            inside = _times(builder, loop.index, pair)
            for row, start in enumerate(starts):
                number = tile.everywhere(pointer(0, builder.add(start, inside)))
                for i, some in enumerate(panel):
                    tile.add(cells[row * vectors + i], some, number)
        for place, cell in enumerate(cells):
            target = pointer(6, ir.Constant(begin.type, place * LANES))
            target = builder.bitcast(target, FLOATS.as_pointer())
            builder.store(builder.load(cell), target, align=4)
        return context.get_dummy_value()

    index = types.intp
    kinds = (x, index, index, weights, index, index, sums, num_rows, num_vectors)
    return types.void(*kinds), generate


def _times(builder: Any, number: Any, factor: int) -> Any:
    return builder.mul(number, ir.Constant(number.type, factor))
