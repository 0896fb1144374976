"""Run the Triton kernels over a paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from .block_cache import BlockCache
from .query_tiles import QueryTiles, power_of_two
from .triton_kernels import attend_tiles, merge_splits

if TYPE_CHECKING:
    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionBatch, AttentionSpec, LayerCall

__all__ = ["TritonPagedAttention"]


class TritonPagedAttention:
    """The implementation of ``TritonAttention``, which imports Triton; see its contract.

    Args:
        spec: The model.
        num_blocks: Blocks of the cache.
        splits: Parts that the keys of a tile are computed in; None: as needed.
    """

    def __init__(self, spec: AttentionSpec, num_blocks: int, splits: int | None) -> None:
        self._spec = spec
        self._cache = BlockCache(spec, num_blocks)
        self._splits = splits
        self._dims = max(16, power_of_two(spec.head_size))
        self._processors = _processors(self._cache.device)
        self._room = torch.empty(0, dtype=torch.float32, device=self._cache.device)

    def begin_step(self, batch: AttentionBatch) -> None:
        """Cut the step into tiles, and decide for each window how often to split."""
        self._batch = batch
        self._tiles = QueryTiles.cut(batch, self._spec)
        self._num_splits = {
            window: self._splits
            or self._tiles.num_splits(window, self._spec.num_kv_heads, self._processors)
            for window in dict.fromkeys(self._spec.sliding_windows)
        }
        self._reserve(max(self._num_splits.values()))

    def forward(self, call: LayerCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``."""
        self._cache.write(call.layer, self._batch.slot_mapping, call.key, call.value)
        output = torch.empty(call.query.shape, dtype=call.query.dtype, device=call.query.device)
        num_splits = self._num_splits[self._spec.sliding_windows[call.layer]]
        if num_splits == 1:
            self._attend(call, output, None, 1)
            return output
        parts, lse = self._parts(num_splits)
        self._attend(call, parts, lse, num_splits)
        self._merge(parts, lse, output, num_splits)
        return output

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)

    def _reserve(self, num_splits: int) -> None:
        """Make room for the parts, once for all layers."""
        if num_splits == 1:
            return
        rows = num_splits * self._tiles.num_tokens * self._spec.num_query_heads
        if rows * (self._spec.head_size + 1) > len(self._room):
            self._room = self._room.new_empty(rows * (self._spec.head_size + 1))

    def _parts(self, num_splits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Room for each part's answers, and for the logarithm of its weight."""
        rows = num_splits * self._tiles.num_tokens * self._spec.num_query_heads
        size = rows * self._spec.head_size
        return self._room[:size], self._room[size:]

    def _attend(
        self, call: LayerCall, output: torch.Tensor, lse: torch.Tensor | None, num_splits: int
    ) -> None:
        spec, tiles, batch = self._spec, self._tiles, self._batch
        query = call.query if call.query.stride(2) == 1 else call.query.contiguous()
        window = spec.sliding_windows[call.layer]
        attend_tiles[(len(tiles.requests), spec.num_kv_heads, num_splits)](
            query,
            self._cache.keys[call.layer],
            self._cache.values[call.layer],
            output,
            lse,
            None if call.sinks is None else call.sinks.contiguous(),
            tiles.requests,
            tiles.offsets,
            batch.query_start_loc,
            tiles.seq_lens,
            batch.block_tables,
            float(call.scale),
            float(call.softcap or 1.0),
            window or 0,
            num_splits,
            tiles.num_tokens,
            query.stride(0),
            query.stride(1),
            batch.block_tables.stride(0),
            NUM_KV_HEADS=spec.num_kv_heads,
            GROUP=spec.num_query_heads // spec.num_kv_heads,
            HEAD_SIZE=spec.head_size,
            BLOCK_SIZE=spec.block_size,
            ROWS=tiles.shape.rows,
            COLUMNS=tiles.shape.columns,
            DIMS=self._dims,
            WINDOWED=window is not None,
            CAPPED=call.softcap is not None,
            num_warps=tiles.shape.num_warps,
            num_stages=tiles.shape.num_stages,
        )

    def _merge(
        self, parts: torch.Tensor, lse: torch.Tensor, output: torch.Tensor, num_splits: int
    ) -> None:
        num_rows = self._tiles.num_tokens * self._spec.num_query_heads
        merge_splits[(num_rows,)](
            parts,
            lse,
            output,
            num_splits,
            num_rows,
            HEAD_SIZE=self._spec.head_size,
            DIMS=self._dims,
            num_warps=1,
        )


def _processors(device: torch.device) -> int:
    """Streaming multiprocessors; one where Triton's interpreter stands in for them."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
