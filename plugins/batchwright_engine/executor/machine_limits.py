"""Limits of the machine: plain products of a model's size, and memory bandwidth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch.nn.functional import linear

__all__ = ["memory_bandwidth", "plain_product", "products_seconds"]

Product = Callable[[torch.Tensor], torch.Tensor]

_COPIED_BYTES = 1 << 28
_MOST_WEIGHTS = 1 << 28  # of one shape that are held at once, so that no cache holds them
_ROUNDS = 5


@torch.inference_mode()
def products_seconds(
    products: Mapping[tuple[int, int], int],
    num_rows: int,
    dtype: str,
    device: torch.device,
    make_product: Callable[[torch.Tensor], Product],
) -> float:
    """Time of matrix products alone.

    Args:
        products: By ``(num_outputs, num_inputs)``, how many there are.
        num_rows: Rows of what is multiplied.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        device: Device of the computation.
        make_product: Makes the product with a weight ``[num_outputs, num_inputs]``.

    Returns:
        Seconds for all of them, the sum of medians.
    """
    kind = getattr(torch, dtype)
    total = 0.0
    for (num_outputs, num_inputs), count in products.items():
        held = max(1, min(count, _MOST_WEIGHTS // (num_outputs * num_inputs)))
        made = [
            make_product(torch.randn(num_outputs, num_inputs, device=device).to(kind))
            for _ in range(held)
        ]
        rows = torch.randn(num_rows, num_inputs, device=device).to(kind)
        total += _median(partial(_multiply, rows, made), device) * count / held
    return total


def plain_product(weight: torch.Tensor) -> Product:
    """``torch.nn.functional.linear`` as it is."""
    return lambda rows: linear(rows, weight)


def _multiply(rows: torch.Tensor, products: list[Product]) -> None:
    for product in products:
        product(rows)


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
