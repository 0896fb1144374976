"""The paged KV cache as kernels for CUDA want it: token by token, all heads of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionSpec

__all__ = ["BlockCache"]


class BlockCache:
    """Keys and values of all layers, ``[num_blocks, block_size, num_kv_heads, head_size]``.

    It begins as zeros: kernels that multiply what no query sees by a weight of zero must
    find numbers there, and fresh memory may hold NaN.

    Attributes:
        keys: By layer.
        values: By layer.
    """

    def __init__(self, spec: AttentionSpec, num_blocks: int) -> None:
        self.block_size = spec.block_size
        shape = (num_blocks, spec.block_size, spec.num_kv_heads, spec.head_size)
        dtype = getattr(torch, spec.dtype)
        self.device = torch.device(spec.device)

        def layers() -> list[torch.Tensor]:
            return [
                torch.zeros(shape, dtype=dtype, device=self.device) for _ in range(spec.num_layers)
            ]

        self.keys, self.values = layers(), layers()

    def write(
        self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> None:
        """Store tokens.

        Args:
            layer: Index of the layer.
            slots: ``[num_tokens]`` int64, distinct.
            key: ``[num_tokens, num_kv_heads, head_size]``.
            value: ``[num_tokens, num_kv_heads, head_size]``.
        """
        self.keys[layer].flatten(0, 1).index_copy_(0, slots, key)
        self.values[layer].flatten(0, 1).index_copy_(0, slots, value)

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """Copy whole blocks in every layer; all are read before any is written."""
        if not copies:
            return
        source = torch.tensor([c.source for c in copies], device=self.device)
        target = torch.tensor([c.destination for c in copies], device=self.device)
        for layer in (*self.keys, *self.values):
            layer.index_copy_(0, target, layer.index_select(0, source))
