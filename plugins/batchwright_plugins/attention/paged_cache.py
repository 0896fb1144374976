"""The paged KV cache of every layer, head by head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionSpec

__all__ = ["PagedCache"]


class PagedCache:
    """Keys and values of all layers in blocks, with room to gather some of them.

    A layer's keys are one tensor, seen in three ways:

    ===========  ==================================================  ===============
    view         shape                                               used to
    ===========  ==================================================  ===============
    by slot      ``[num_kv_heads, num_slots, head_size]``            write tokens
    by block     ``[num_kv_heads, num_blocks + 1, block_elements]``  copy blocks
    by row       ``[num_kv_heads * (num_blocks + 1), block_elements]``  gather blocks
    ===========  ==================================================  ===============

    The head comes first because attention reads one head at a time: the gathered
    tokens of a head are then contiguous. The block behind the last one, ``blank``,
    is all zeros; groups of unequal length are padded with it.

    Memory is not touched before it is written, so that a large pool costs what is used.
    """

    def __init__(self, spec: AttentionSpec, num_blocks: int) -> None:
        self.block_size = spec.block_size
        self.num_kv_heads = spec.num_kv_heads
        self.head_size = spec.head_size
        self.blank = num_blocks
        self._rows = spec.num_kv_heads * (num_blocks + 1)
        self._shape = (self._rows, spec.block_size * spec.head_size)
        self._dtype = getattr(torch, spec.dtype)
        self._device = torch.device(spec.device)
        self._keys = [self._layer() for _ in range(spec.num_layers)]
        self._values = [self._layer() for _ in range(spec.num_layers)]
        self._key_room = self._room(0)
        self._value_room = self._room(0)

    def _layer(self) -> torch.Tensor:
        layer = torch.empty(self._shape, dtype=self._dtype, device=self._device)
        layer.view(self.num_kv_heads, self.blank + 1, -1)[:, self.blank].zero_()
        return layer

    def _room(self, num_rows: int) -> torch.Tensor:
        return torch.empty((num_rows, self._shape[1]), dtype=self._dtype, device=self._device)

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
        by_slot = (self.num_kv_heads, -1, self.head_size)
        self._keys[layer].view(by_slot).index_copy_(1, slots, key.transpose(0, 1))
        self._values[layer].view(by_slot).index_copy_(1, slots, value.transpose(0, 1))

    def reserve(self, num_rows: int) -> None:
        """Make room to gather this many rows (a block of one head) at once."""
        if num_rows > len(self._key_room):
            self._key_room = self._room(num_rows)
            self._value_room = self._room(num_rows)

    def gather(
        self, layer: int, rows: torch.Tensor, blanks: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy blocks next to each other; valid until the next call.

        Args:
            layer: Index of the layer.
            rows: ``[num_rows]`` int64, one a block and head; at most what is reserved.
            blanks: ``[num_blanks]`` int64, gathered tokens to set to zero: what lies
                in an unused slot may be NaN, and NaN times a weight of zero is NaN.

        Returns:
            Keys and values, each ``[num_rows * block_size, head_size]``.
        """
        return (
            self._collect(self._keys[layer], self._key_room, rows, blanks),
            self._collect(self._values[layer], self._value_room, rows, blanks),
        )

    def _collect(
        self, cache: torch.Tensor, room: torch.Tensor, rows: torch.Tensor, blanks: torch.Tensor
    ) -> torch.Tensor:
        room = room[: len(rows)]
        torch.index_select(cache, 0, rows, out=room)
        return room.view(-1, self.head_size).index_fill_(0, blanks, 0)

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """Copy whole blocks in every layer; all are read before any is written."""
        if not copies:
            return
        source = torch.tensor([c.source for c in copies], device=self._device)
        target = torch.tensor([c.destination for c in copies], device=self._device)
        for layer in (*self._keys, *self._values):
            blocks = layer.view(self.num_kv_heads, self.blank + 1, -1)
            blocks.index_copy_(1, target, blocks.index_select(1, source))
