"""LLVM's instructions for vectors as long as a row."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .vectors import FLOAT, FLOATS, LANES, PAIRS, WORD, add_pairs

__all__ = ["FAST", "PairedProducts", "Products", "RowCode"]

_HALF = ir.IntType(16)
FAST = ("contract", "reassoc", "nsz")


class RowCode:
    """Write instructions for one call.

    Args:
        context: numba's.
        builder: Of the function that is called from.
        signature: Types of the arguments.
        arguments: Their values.
        size: Elements a row.
    """

    def __init__(
        self, context: Any, builder: Any, signature: Any, arguments: Any, size: int
    ) -> None:
        self._context = context
        self.builder = builder
        self._types = signature.args
        self.arguments = arguments
        self._size = size
        self._vector = ir.VectorType(FLOAT, size)

    def plus(self, start: Any, index: Any, step: Any) -> Any:
        """``start + index * step``."""
        if isinstance(index, int):
            index = ir.Constant(start.type, index)
        if isinstance(step, int):
            step = ir.Constant(start.type, step)
        return self.builder.add(start, self.builder.mul(index, step))

    def element(self, argument: int, offset: Any) -> Any:
        """Pointer to an element of the array that is this argument."""
        make = self._context.make_array(self._types[argument])
        array = make(self._context, self.builder, self.arguments[argument])
        return self.builder.gep(array.data, [offset])

    def row_at(self, argument: int, offset: Any) -> Any:
        """Pointer to a row of float32."""
        pointer = self.element(argument, offset)
        return self.builder.bitcast(pointer, self._vector.as_pointer())

    def load(self, argument: int, offset: Any) -> Any:
        """A row of the array that is this argument, as float32."""
        if self._types[argument].dtype != types.uint16:
            return self.builder.load(self.row_at(argument, offset), align=4)
        halves, words = (ir.VectorType(kind, self._size) for kind in (_HALF, WORD))
        pointer = self.builder.bitcast(self.element(argument, offset), halves.as_pointer())
        row = self.builder.zext(self.builder.load(pointer, align=2), words)
        row = self.builder.shl(row, ir.Constant(words, [16] * self._size))
        return self.builder.bitcast(row, self._vector)

    def load_pairs(self, argument: int, offset: Any) -> list[Any]:
        """A row of bfloat16 in vectors of pairs."""
        places = [self.plus(offset, i, 2 * LANES) for i in range(self._size // (2 * LANES))]
        pointers = [self.element(argument, place) for place in places]
        return [
            self.builder.load(self.builder.bitcast(pointer, PAIRS.as_pointer()), align=2)
            for pointer in pointers
        ]

    def spread(self, number: Any) -> Any:
        """A row that is this number everywhere."""
        nothing = ir.Constant(self._vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, ir.Constant(WORD, 0))
        places = ir.Constant(ir.VectorType(WORD, self._size), [0] * self._size)
        return self.builder.shuffle_vector(first, nothing, places)

    def total(self, row: Any) -> Any:
        """The sum of a row."""
        kind = ir.FunctionType(FLOAT, [FLOAT, row.type])
        name = f"llvm.vector.reduce.fadd.v{row.type.count}f32"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [ir.Constant(FLOAT, 0.0), row], fastmath=FAST)


class Products:
    """Scalar products of rows of numbers.

    Args:
        code: Of the call.
        left: Which argument has the rows on the left.
        right: Which has those on the right.
    """

    def __init__(self, code: RowCode, left: int, right: int) -> None:
        self._code = code
        self._arguments = left, right

    def load(self, side: int, offset: Any) -> Any:
        """A row, as ``multiply`` needs it."""
        return self._code.load(self._arguments[side], offset)

    def multiply(self, left: Any, right: Any) -> Any:
        """The scalar product of two rows."""
        return self._code.total(self._code.builder.fmul(left, right, flags=FAST))


class PairedProducts(Products):
    """Of bfloat16, where the CPU multiplies pairs; the products are exact."""

    def load(self, side: int, offset: Any) -> Any:
        return self._code.load_pairs(self._arguments[side], offset)

    def multiply(self, left: Any, right: Any) -> Any:
        total = ir.Constant(FLOATS, [0.0] * LANES)
        for some, others in zip(left, right, strict=True):
            total = add_pairs(self._code.builder, total, some, others)
        return self._code.total(total)
