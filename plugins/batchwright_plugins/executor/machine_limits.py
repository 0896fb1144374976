"""What the machine allows: plain products of a model's size, and memory bandwidth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch.nn.functional import linear

__all__ = ["memory_bandwidth", "products_seconds"]

_COPIED_BYTES = 1 << 28
_MOST_WEIGHTS = 1 << 28  # of one shape that are held at once, so that no cache holds them
_ROUNDS = 5


@torch.inference_mode()
def products_seconds(
    products: Mapping[tuple[int, int], int], num_rows: int, dtype: str, device: torch.device
) -> float:
    """Time of matrix products alone, by ``torch.nn.functional.linear`` as it is.

    Args:
        products: By ``(num_outputs, num_inputs)``, how many there are.
        num_rows: Rows of what is multiplied.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        device: Where to compute.

    Returns:
        Seconds for all of them, the sum of medians.
    """
    kind = getattr(torch, dtype)
    total = 0.0
    for (num_outputs, num_inputs), count in products.items():
        held = max(1, min(count, _MOST_WEIGHTS // (num_outputs * num_inputs)))
        weights = [
            torch.randn(num_outputs, num_inputs, device=device).to(kind) for _ in range(held)
        ]
        rows = torch.randn(num_rows, num_inputs, device=device).to(kind)
        total += _median(partial(_multiply, rows, weights), device) * count / held
    return total


def _multiply(rows: torch.Tensor, weights: list[torch.Tensor]) -> None:
    for weight in weights:
        linear(rows, weight)


def memory_bandwidth(device: torch.device) -> float:
    """Bytes a second, read and written, of a copy that no cache holds."""
    source = torch.zeros(_COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.ones_like(source)
    return 2 * _COPIED_BYTES / _median(lambda: target.copy_(source), device)


def _median(call: Callable[[], object], device: torch.device) -> float:
    """Median seconds of a call, after one that does not count."""
    times = []
    for _ in range(_ROUNDS + 1):
        begin = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])
