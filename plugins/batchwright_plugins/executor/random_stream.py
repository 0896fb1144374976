"""Random numbers that are a function of a request and a position, and of nothing else.

Whatever else is in the batch, and however often a request was preempted, the number
for its n-th output token is the same: no generator state has to be kept or replayed.
"""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["stream_key", "uniform"]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: spreads consecutive counters


def stream_key(seed: int | None, default_seed: int, request_id: str) -> int:
    """The key of a request's stream: its own seed, or one drawn from its id.

    Args:
        seed: The request's seed; None: it brings none.
        default_seed: The model's seed, for requests that bring none.
        request_id: Its id, for the same.
    """
    text = f"seed {seed}" if seed is not None else f"id {default_seed} {request_id}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def uniform(key: int, position: int) -> float:
    """A number in [0, 1), a multiple of 2**-40, for one output position of a stream."""
    return (_mix((key + (position + 1) * _GOLDEN) & _MASK) >> 24) * 2.0**-40


def _mix(x: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014, figure 17, mix64variant13)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)
