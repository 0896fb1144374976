"""Rotary position embeddings, computed once for every position."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["Rotary", "RotaryTable"]

Rotary = tuple[torch.Tensor, torch.Tensor]
"""Cosines and signed sines, each ``[num_tokens, 1, head_size]``; see ``elementwise.rotate``."""

_MOST_ELEMENTS = 1 << 24  # of a table; beyond, every step computes what it needs


class RotaryTable:
    """The factors of ``elementwise.rotate`` by position.

    Args:
        compute: Takes ``[1, n]`` positions and gives cosines and sines, each
            ``[1, n, rotary_size]``: the second half repeats the first.
        num_positions: Positions that requests may reach.
        head_size: Elements a head; those behind ``rotary_size`` are not rotated.
    """

    def __init__(
        self, compute: Callable[[torch.Tensor], Rotary], num_positions: int, head_size: int
    ) -> None:
        self._compute = compute
        self._head_size = head_size
        self._table: Rotary | None = None
        self.rotary_size = compute(torch.zeros(1, 1, dtype=torch.int64))[0].shape[-1]
        if num_positions * head_size <= _MOST_ELEMENTS:
            self._table = self._factors(torch.arange(num_positions))

    def lookup(self, positions: torch.Tensor) -> Rotary:
        """The factors of ``[num_tokens]`` positions."""
        if self._table is None:
            return self._factors(positions)
        cosines, sines = self._table
        return cosines.index_select(0, positions), sines.index_select(0, positions)

    def _factors(self, positions: torch.Tensor) -> Rotary:
        cosines, sines = (values[0] for values in self._compute(positions.unsqueeze(0)))
        shape = (len(positions), 1, self._head_size)
        wide_cosines, wide_sines = cosines.new_ones(shape), sines.new_zeros(shape)
        half = self.rotary_size // 2
        wide_cosines[:, 0, : self.rotary_size] = cosines
        wide_sines[:, 0, : self.rotary_size] = sines
        wide_sines[:, 0, :half].neg_()
        return wide_cosines, wide_sines
