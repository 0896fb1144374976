"""A matrix product with fixed weights by a compiled kernel of our own."""

from __future__ import annotations

import torch

from batchwright_engine.compiled.floats import is_half
from batchwright_engine.compiled.products import COLUMNS, multiply_work, pack
from batchwright_engine.compiled.team import share_parts

__all__ = ["CompiledLinear"]

_LEAST_WORK = 1 << 17  # products of two numbers in a part; starting one takes a tenth as long
_PARTS_A_THREAD = 4  # at least, so that one that is kept from running is not waited for
_ROWS_A_PART = 256  # their inputs stay in a core's cache while weights pass by


class CompiledLinear:
    """See ``linear.Linear``.

    Args:
        weight: ``[num_outputs, num_inputs]``, float32 or bfloat16; not kept.
        bias: ``[num_outputs]`` or None.

    Raises:
        ValueError: The bias, or later what is multiplied or added to, does not fit the weights.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._num_outputs, self._num_inputs = weight.shape
        self._num_panels = -(-self._num_outputs // COLUMNS)
        self._weights = pack(weight)
        self._bias = None if bias is None else bias.contiguous()
        if self._bias is not None:
            self._check("bias", self._bias, (self._num_outputs,))
        self._work = multiply_work(is_half(weight.dtype))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._multiply(x.contiguous(), None)

    def added_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self._multiply(x.contiguous(), residual.contiguous())

    def _multiply(self, x: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
        num_rows = x.shape[0]
        self._check("input", x, (num_rows, self._num_inputs))
        if residual is not None:
            self._check("residual", residual, (num_rows, self._num_outputs))
        result = x.new_empty(num_rows, self._num_outputs)
        arguments = (
            x.data_ptr(),
            self._weights.data_ptr(),
            _address(self._bias),
            _address(residual),
            result.data_ptr(),
            num_rows,
            self._num_inputs,
            self._num_outputs,
            _ROWS_A_PART,
            self._panels_a_part(num_rows),
        )
        parts = -(-num_rows // _ROWS_A_PART) * -(-self._num_panels // arguments[-1])
        share_parts(self._work, arguments, parts)
        return result

    def _check(self, name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
        """The kernel knows addresses only, and would read behind what is too small.

        Raises:
            ValueError: A tensor of another shape or type than the weights are for.
        """
        dtype = self._weights.dtype
        if tensor.shape != shape or tensor.dtype != dtype:
            raise ValueError(
                f"a product of {self._num_inputs} inputs to {self._num_outputs} outputs takes "
                f"{list(shape)} in {dtype} as its {name}, "
                f"not {list(tensor.shape)} in {tensor.dtype}"
            )

    def _panels_a_part(self, num_rows: int) -> int:
        """Few enough for every thread to have some, and to take longer than starting them."""
        work = num_rows * self._num_inputs * COLUMNS
        share = self._num_panels // (_PARTS_A_THREAD * torch.get_num_threads())
        return max(1, min(_LEAST_WORK // max(work, 1), share))


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
