"""Random numbers that are a function of a request and a position, and of nothing else.

Whatever else is in the batch, and however often a request was preempted, the number
for its n-th output token is the same: no generator state has to be kept or replayed.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["stream_key", "uniforms"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads consecutive counters


def stream_key(seed: int | None, default_seed: int, request_id: str) -> int:
    """The key of a request's stream: its own seed, or one drawn from its id.

    Args:
        seed: The request's seed; None: it brings none.
        default_seed: The model's seed, for requests that bring none.
        request_id: Its id, for the same.
    """
    text = f"seed {seed}" if seed is not None else f"id {default_seed} {request_id}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def uniforms(keys: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Numbers in [0, 1), multiples of 2**-40, for output positions of streams.

    Args:
        keys: Keys of streams.
        positions: Parallel to them, output positions from 0.
    """
    steps = (positions + 1).astype(np.uint64)
    return (_mix(keys + steps * _GOLDEN) >> np.uint64(24)).astype(np.float64) * 2.0**-40


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014, figure 17, mix64variant13)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
