"""Products with rows of numbers, in vectors as long as a row.

numba's own loops load and store sums again for every row, since arrays might overlap.
Here they are LLVM's instructions for vectors: what the rows are multiplied with, and
what is summed up, stays in registers. LLVM divides the vectors as the CPU needs it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from .row_code import FAST, PairedProducts, Products, RowCode
from .vectors import BFLOAT, LANES, WORD, has

__all__ = ["add_row", "add_weighted_rows", "fetch_rows", "multiply_rows", "store_row"]

_LINE_BYTES = 64


@intrinsic(prefer_literal=True)
def multiply_rows(
    _context: Any,
    left: Any,
    rows: Any,
    start: Any,
    count: Any,
    products: Any,
    first: Any,
    step: Any,
    num_left: Any,
    size: Any,
) -> Any:
    """Scalar products of a few rows with many.

    Args:
        left: ``[num_left * size]`` float32, or uint16 for bfloat16.
        rows: Flat float32, or uint16 for bfloat16.
        start: Index in ``rows`` of the start of the first one.
        count: Rows there, one behind the other.
        products: Flat float32, set at ``first + step * i + j`` for row j with i of ``left``.
        first: See there.
        step: See there.
        num_left: Number of rows on the left; a constant.
        size: Elements a row; a constant.
    """
    num, width = num_left.literal_value, size.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = RowCode(context, builder, signature, arguments, width)
        _, _, start, count, _, first, step, _, _ = arguments
        nought = ir.Constant(start.type, 0)
        in_pairs = left.dtype == rows.dtype == types.uint16 and width % (2 * LANES) == 0
        kind = PairedProducts if in_pairs and has("avx512bf16") else Products
        scalar = kind(code, 0, 1)
        few = [scalar.load(0, code.plus(nought, i, width)) for i in range(num)]
        with cgutils.for_range(builder, count, intp=count.type) as loop:
            row = scalar.load(1, code.plus(start, loop.index, width))
            place = builder.add(first, loop.index)
            for i, one in enumerate(few):
                product = scalar.multiply(one, row)
                builder.store(product, code.element(4, code.plus(place, i, step)))
        return context.get_dummy_value()

    index = types.intp
    arguments = (left, rows, index, index, products, index, index, num_left, size)
    return types.void(*arguments), generate


@intrinsic(prefer_literal=True)
def add_weighted_rows(
    _context: Any,
    sums: Any,
    rows: Any,
    start: Any,
    count: Any,
    weights: Any,
    first: Any,
    step: Any,
    num_sums: Any,
    size: Any,
) -> Any:
    """Add many rows, weighted, to each of a few.

    Args:
        sums: ``[num_sums * size]`` float32.
        rows: Flat float32, or uint16 for bfloat16.
        start: Index in ``rows`` of the start of the first one.
        count: Rows there, one behind the other.
        weights: Flat float32: that of row j in sum i is at ``first + step * i + j``.
        first: See there.
        step: See there.
        num_sums: Number of sums; a constant.
        size: Elements a row; a constant.
    """
    num, width = num_sums.literal_value, size.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = RowCode(context, builder, signature, arguments, width)
        _, _, start, count, _, first, step, _, _ = arguments
        nought = ir.Constant(start.type, 0)
        targets = [code.row_at(0, code.plus(nought, i, width)) for i in range(num)]
        cells = [
            cgutils.alloca_once_value(builder, builder.load(target, align=4)) for target in targets
        ]
        with cgutils.for_range(builder, count, intp=count.type) as loop:
            row = code.load(1, code.plus(start, loop.index, width))
            place = builder.add(first, loop.index)
            for i, cell in enumerate(cells):
                weight = builder.load(code.element(4, code.plus(place, i, step)))
                share = builder.fmul(code.spread(weight), row, flags=FAST)
                builder.store(builder.fadd(share, builder.load(cell), flags=FAST), cell)
        for target, cell in zip(targets, cells, strict=True):
            builder.store(builder.load(cell), target, align=4)
        return context.get_dummy_value()

    index = types.intp
    arguments = (sums, rows, index, index, weights, index, index, num_sums, size)
    return types.void(*arguments), generate


@intrinsic(prefer_literal=True)
def add_row(_context: Any, sums: Any, at: Any, numbers: Any, place: Any, size: Any) -> Any:
    """Add a row of numbers to sums.

    Args:
        sums: Flat float32.
        at: Index of the start of the row in it.
        numbers: Flat float32, or uint16 for bfloat16.
        place: Index of the start of the row in it.
        size: Elements; a constant.
    """
    width = size.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = RowCode(context, builder, signature, arguments, width)
        total = builder.fadd(code.load(0, arguments[1]), code.load(2, arguments[3]))
        builder.store(total, code.row_at(0, arguments[1]), align=4)
        return context.get_dummy_value()

    return types.void(sums, types.intp, numbers, types.intp, size), generate


@intrinsic(prefer_literal=True)
def store_row(_context: Any, result: Any, place: Any, sums: Any, at: Any, size: Any) -> Any:
    """Store a row of sums as numbers of an array's type, rounded to the nearest.

    Args:
        result: Flat float32, or uint16 for bfloat16.
        place: Index of the start of the row in it.
        sums: Flat float32.
        at: Index of the start of the row in it.
        size: Elements; a constant.
    """
    width = size.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = RowCode(context, builder, signature, arguments, width)
        row, pointer = code.load(2, arguments[3]), code.element(0, arguments[1])
        if result.dtype == types.uint16:
            row = builder.fptrunc(row, ir.VectorType(BFLOAT, width))
        pointer = builder.bitcast(pointer, row.type.as_pointer())
        builder.store(row, pointer, align=result.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(result, types.intp, sums, types.intp, size), generate


@intrinsic
def _fetch(_context: Any, array: Any, place: Any) -> Any:
    """Ask for the line of memory that an element lies in."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = RowCode(context, builder, signature, arguments, 1).element(0, arguments[1])
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, WORD, WORD, WORD])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, nearest, data = (ir.Constant(WORD, value) for value in (0, 3, 1))
        builder.call(fetch, [builder.bitcast(pointer, byte), to_read, nearest, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@njit(inline="always")
def fetch_rows(rows: Any, start: Any, count: Any, size: Any) -> None:
    """Ask for rows that will soon be read or written, to have them in the CPU's cache by then.

    Args:
        rows: Flat.
        start: Index of the start of the first one.
        count: Rows there, one behind the other.
        size: Elements a row.
    """
    for place in range(start, start + count * size, _LINE_BYTES // rows.itemsize):
        _fetch(rows, place)
