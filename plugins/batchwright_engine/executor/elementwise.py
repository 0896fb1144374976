"""Operations of a decoder beside products and attention.

On a CPU each of these is a pass over a few thousand numbers, which several of torch's
operations, and waking threads for them, take several times as long as. Where numba is
installed, one compiled function does it; without it, torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn.functional import rms_norm, silu

from batchwright_engine.compiled.compiler import problem

__all__ = ["gate", "normalise", "rotate"]


def normalise(x: torch.Tensor, gain: torch.Tensor, eps: float) -> torch.Tensor:
    """Root mean square norm over the last dimension (Zhang, Sennrich 2019), in float32.

    Args:
        x: ``[..., size]``.
        gain: ``[size]``, of the type of x or float32.
        eps: Added to the mean square.

    Returns:
        Like x.
    """
    kernels = _kernels(x)
    if kernels is not None and x.is_contiguous():
        result: torch.Tensor = kernels.normalise(x, gain, eps)
        return result
    if gain.dtype == x.dtype:
        return rms_norm(x, gain.shape, gain, eps)
    return rms_norm(x.float(), gain.shape, gain, eps).to(x.dtype)


def rotate(
    heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, rotary_size: int
) -> torch.Tensor:
    """Rotate the first half of each head's first elements and the second half by an angle.

    Args:
        heads: ``[num_tokens, num_heads, head_size]``; may be overwritten.
        cosines: ``[num_tokens, 1, head_size]``.
        sines: ``[num_tokens, 1, head_size]``, the first half with the sign turned.
        rotary_size: Elements that are turned.

    Returns:
        Like ``heads``.
    """
    kernels = _kernels(heads)
    if kernels is not None and heads.stride()[1:] == (heads.shape[2], 1):
        kernels.rotate_heads(heads, cosines, sines, rotary_size)
        return heads
    half = rotary_size // 2
    parts = [heads[..., half:rotary_size], heads[..., :half]]
    if rotary_size < heads.shape[-1]:
        parts.append(heads[..., rotary_size:])
    return (heads * cosines).addcmul_(torch.cat(parts, -1), sines)


def gate(gate_up: torch.Tensor, activation: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """``activation(gate) * up``.

    Args:
        gate_up: ``[num_tokens, 2 * size]``, a gate and then what it gates.
        activation: Of the gate.

    Returns:
        ``[num_tokens, size]``.
    """
    kernels = _kernels(gate_up) if activation is silu else None
    if kernels is not None and gate_up.is_contiguous():
        result: torch.Tensor = kernels.gate_by_silu(gate_up)
        return result
    gates, up = gate_up.chunk(2, -1)
    return activation(gates).mul_(up)


def _kernels(x: torch.Tensor) -> Any:
    """The compiled functions, if they are there and serve this tensor; else None."""
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.bfloat16):
        return None
    return _compiled()


@cache
def _compiled() -> Any:
    if problem() is not None:
        return None
    from . import compiled_elementwise

    return compiled_elementwise
