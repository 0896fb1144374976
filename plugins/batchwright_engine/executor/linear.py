"""A matrix product with fixed weights, in the form that is fastest where it runs."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn.functional import linear

from batchwright_engine.compiled.compiler import problem

__all__ = ["Linear", "make_linear"]

_LEAST_PACKED = 1 << 16  # weights; below, oneDNN's call costs more than it saves in float32
_USUAL_ROWS = 32  # the layout is chosen for about so many; it serves any number


class Linear(Protocol):
    """``x @ weight.T + bias``."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply ``[num_rows, num_inputs]`` to ``[num_rows, num_outputs]``."""
        ...

    def added_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The product plus ``residual``, ``[num_rows, num_outputs]``."""
        ...


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
    """Prepare a product; on a CPU, the weights are laid out anew where that pays.

    Args:
        weight: ``[num_outputs, num_inputs]``; not kept where it is laid out anew.
        bias: ``[num_outputs]`` or None.
    """
    if weight.device.type == "cpu" and problem() is None:
        from batchwright_engine.compiled.products import serves

        if serves(weight):
            from .compiled_linear import CompiledLinear

            return CompiledLinear(weight, bias)
    pays = weight.numel() >= _LEAST_PACKED or weight.dtype == torch.bfloat16
    if weight.device.type == "cpu" and weight.dtype != torch.float16 and pays and _has_onednn():
        return _Packed(weight, bias)
    return _Plain(weight, bias)


class _Plain:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._weight, self._bias)

    def added_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._weight, self._bias).add_(residual)


class _Packed:
    """Weights in the blocks that oneDNN reads: otherwise every call lays them out first.

    These are the operators that torch's own compiler puts in place of a linear layer
    when it freezes a model for a CPU.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _USUAL_ROWS)
        self._bias = bias
        self._product = torch.ops.mkldnn._linear_pointwise.default
        self._sum = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._product(x, self._weight, self._bias, "none", [], "")
        return result

    def added_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._sum(x, residual, self._weight, self._bias, "add")
        return result


def _has_onednn() -> bool:
    operators = torch.ops.mkldnn
    is_there: bool = torch._C._has_mkldnn
    return is_there and all(
        hasattr(operators, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )
