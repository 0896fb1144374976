"""Products with fixed weights, compiled for a CPU with AVX-512."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numba import carray, njit

from .compiling import compiled_work
from .floats import narrow, numbers_at, widen
from .rows import add_row, store_row
from .tiles import multiply_tile
from .vectors import LANES, has

__all__ = ["COLUMNS", "multiply_work", "pack", "serves"]

_NUM_VECTORS = 2
COLUMNS = LANES * _NUM_VECTORS
"""Outputs a panel of weights. Four rows and more fill the pipeline; eight leave registers."""

_LINE_BYTES = 64


def serves(weight: torch.Tensor) -> bool:
    """Return True if this CPU has the instructions for such weights, and their shape suits them.

    Where it has whole units for tiles of bfloat16 (AMX), oneDNN uses them, and we do not.
    """
    if weight.dtype == torch.bfloat16:
        return has("avx512bf16") and not has("amx-bf16") and weight.shape[1] % 2 == 0
    return weight.dtype == torch.float32 and has("avx512f")


def pack(weight: torch.Tensor) -> torch.Tensor:
    """Lay weights out in panels; see ``tiles.multiply_tile``.

    Args:
        weight: ``[num_outputs, num_inputs]``.

    Returns:
        Flat; the last panel has zeros behind the last output.
    """
    num_outputs, num_inputs = weight.shape
    panels = _room(-(-num_outputs // COLUMNS) * num_inputs * COLUMNS, weight.dtype)
    steps, by_output = panels, weight.contiguous()
    if weight.dtype == torch.bfloat16:  # pairs move as one number
        if by_output.storage_offset() % 2:
            by_output = by_output.clone()
        steps, by_output = panels.view(torch.int32), by_output.view(torch.int32)
    by_input = steps.view(-1, by_output.shape[1], COLUMNS).transpose(1, 2)
    whole = num_outputs // COLUMNS
    by_input[:whole] = by_output[: whole * COLUMNS].view(whole, *by_input.shape[1:])
    by_input[whole:, : num_outputs % COLUMNS] = by_output[whole * COLUMNS :]
    return panels


def _room(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeros that begin where a line of the CPU's caches does."""
    line = _LINE_BYTES // dtype.itemsize
    room = torch.zeros(length + line, dtype=dtype)
    begin = -room.data_ptr() % _LINE_BYTES // dtype.itemsize
    return room[begin : begin + length]


@cache
def multiply_work(is_half: int) -> Any:
    """The product of rows with weights; a part is some rows with some panels.

    Its words: addresses of x, packed weights, bias (0: none), residual (0: none) and
    result; then rows, inputs, outputs, and how many rows and panels a part has.

    Args:
        is_half: 1: all numbers are bfloat16; 0: float32.
    """

    def multiply(arguments: Any, part: int) -> None:
        words = carray(arguments, (10,))
        x_at, weights_at, bias_at, residual_at, result_at = words[:5]
        num_rows, num_inputs, num_outputs, rows_a_part, panels_a_part = words[5:]
        num_panels = (num_outputs + COLUMNS - 1) // COLUMNS
        groups = (num_panels + panels_a_part - 1) // panels_a_part
        first_row, first_panel = part // groups * rows_a_part, part % groups * panels_a_part
        x = numbers_at(x_at, num_rows * num_inputs, is_half)
        weights = numbers_at(weights_at, num_panels * COLUMNS * num_inputs, is_half)
        bias = numbers_at(bias_at, num_outputs if bias_at else 0, is_half)
        residual = numbers_at(residual_at, num_rows * num_outputs if residual_at else 0, is_half)
        result = numbers_at(result_at, num_rows * num_outputs, is_half)
        sums = np.empty(8 * COLUMNS, np.float32)
        stop = min(first_row + rows_a_part, num_rows)
        for panel in range(first_panel, min(first_panel + panels_a_part, num_panels)):
            row, begin, column = first_row, panel * COLUMNS * num_inputs, panel * COLUMNS
            while row < stop:
                count = _multiply_rows(x, row, stop - row, num_inputs, weights, begin, sums)
                for i in range(count):
                    place, left = (row + i) * num_outputs + column, num_outputs - column
                    _finish_row(sums, i, bias, column, residual, result, place, left)
                row += count

    return compiled_work(multiply, variant=f"_{is_half}")


@njit(inline="always")
def _multiply_rows(
    x: Any, row: Any, num_left: Any, num_inputs: Any, weights: Any, begin: Any, sums: Any
) -> Any:
    """Multiply as many rows at once as there is code for; gives how many."""
    first = row * num_inputs
    if num_left >= 8:
        multiply_tile(x, first, num_inputs, weights, begin, num_inputs, sums, 8, _NUM_VECTORS)
        return 8
    if num_left >= 4:
        multiply_tile(x, first, num_inputs, weights, begin, num_inputs, sums, 4, _NUM_VECTORS)
        return 4
    if num_left >= 2:
        multiply_tile(x, first, num_inputs, weights, begin, num_inputs, sums, 2, _NUM_VECTORS)
        return 2
    multiply_tile(x, first, num_inputs, weights, begin, num_inputs, sums, 1, _NUM_VECTORS)
    return 1


@njit(inline="always")
def _finish_row(
    sums: Any, i: Any, bias: Any, column: Any, residual: Any, result: Any, place: Any, num_left: Any
) -> None:
    """Add to a row of sums what is to be added, and store it; of the last panel, its part."""
    at = i * COLUMNS
    if num_left >= COLUMNS:
        if bias.shape[0]:
            add_row(sums, at, bias, column, COLUMNS)
        if residual.shape[0]:
            add_row(sums, at, residual, place, COLUMNS)
        store_row(result, place, sums, at, COLUMNS)
        return
    for j in range(num_left):
        total = sums[at + j]
        if bias.shape[0]:
            total += widen(bias[column + j])
        if residual.shape[0]:
            total += widen(residual[place + j])
        result[place + j] = narrow(total, result)
