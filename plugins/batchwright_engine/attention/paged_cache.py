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

    A layer is one tensor, keys before values, seen in three ways:

    ===========  ======================================================  =============
    view         shape                                                   used to
    ===========  ======================================================  =============
    by slot      ``[2 * num_kv_heads, num_slots, head_size]``            write tokens
    by block     ``[2 * num_kv_heads, num_blocks + 1, block_elements]``  copy blocks
    by row       ``[2 * num_kv_heads * (num_blocks + 1), block_elements]``  gather blocks
    ===========  ======================================================  =============

    The head comes first because attention reads one head at a time: the gathered
    tokens of a head are then contiguous. The block behind the last one, ``blank``,
    is all zeros; groups of unequal length are padded with it.

    Memory is not touched before it is written, so that a large pool costs what is used.

    Attributes:
        layers: Each layer by slot.
        rows_per_half: Rows of keys; the row of a value lies so many behind its key's.
    """

    def __init__(self, spec: AttentionSpec, num_blocks: int) -> None:
        self.block_size = spec.block_size
        self.num_kv_heads = spec.num_kv_heads
        self.head_size = spec.head_size
        self.blank = num_blocks
        self.rows_per_half = spec.num_kv_heads * (num_blocks + 1)
        self._row_shape = (spec.block_size * spec.head_size,)
        self._dtype = getattr(torch, spec.dtype)
        self._device = torch.device(spec.device)
        self._layers = [self._layer() for _ in range(spec.num_layers)]
        by_slot = (2 * spec.num_kv_heads, -1, spec.head_size)
        self.layers = [layer.view(by_slot) for layer in self._layers]
        heads = spec.num_kv_heads
        self._halves = [(slots[:heads], slots[heads:]) for slots in self.layers]
        self._room = self._rows(0)

    def _layer(self) -> torch.Tensor:
        layer = self._rows(2 * self.rows_per_half)
        self._by_block(layer)[:, self.blank].zero_()
        return layer

    def _rows(self, count: int) -> torch.Tensor:
        return torch.empty((count, *self._row_shape), dtype=self._dtype, device=self._device)

    def _by_block(self, layer: torch.Tensor) -> torch.Tensor:
        return layer.view(2 * self.num_kv_heads, self.blank + 1, -1)

    def write(
        self,
        layer: int,
        slots: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        unused: torch.Tensor | None,
    ) -> None:
        """Store tokens.

        Args:
            layer: Index of the layer.
            slots: ``[num_tokens]`` int64, distinct.
            key: ``[num_tokens, num_kv_heads, head_size]``.
            value: ``[num_tokens, num_kv_heads, head_size]``.
            unused: ``[num_unused]`` int64, slots to set to zero; None: none.
        """
        keys, values = self._halves[layer]
        keys.index_copy_(1, slots, key.transpose(0, 1))
        values.index_copy_(1, slots, value.transpose(0, 1))
        if unused is not None:
            self.layers[layer].index_fill_(1, unused, 0)

    def reserve(self, num_rows: int) -> None:
        """Make room to gather this many rows (a block of one head, keys or values)."""
        if num_rows > len(self._room):
            self._room = self._rows(num_rows)

    def gather(
        self, layer: int, rows: torch.Tensor, blanks: torch.Tensor | None, begin: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy blocks next to each other; valid until the next call.

        With ``begin``, what an earlier call put into the room before it stays valid.

        Args:
            layer: Index of the layer.
            rows: ``[num_rows]`` int64, those of keys, then those of values; with
                ``begin``, at most what is reserved.
            blanks: ``[num_blanks]`` int64, gathered tokens, of keys and of values, to
                set to zero; None: none.
            begin: First row of the room to use.

        Returns:
            Keys and values, each ``[num_rows / 2 * block_size, head_size]``.
        """
        room = self._room[begin : begin + rows.shape[0]]
        self.gather_into(layer, rows, room)
        tokens = room.view(-1, self.head_size)
        if blanks is not None:
            tokens.index_fill_(0, blanks, 0)
        keys, values = tokens.chunk(2)
        return keys, values

    def gather_into(self, layer: int, rows: torch.Tensor, room: torch.Tensor) -> None:
        """Copy blocks next to each other into a caller's room, as many tokens as it has."""
        torch.index_select(self._layers[layer], 0, rows, out=room.view(len(rows), -1))

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """Copy whole blocks in every layer; all are read before any is written."""
        if not copies:
            return
        source = torch.tensor([c.source for c in copies], device=self._device)
        target = torch.tensor([c.destination for c in copies], device=self._device)
        for layer in self._layers:
            blocks = self._by_block(layer)
            blocks.index_copy_(1, target, blocks.index_select(1, source))
