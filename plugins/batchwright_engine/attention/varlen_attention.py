"""Run torch's variable-length attention over a paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.attention.varlen import varlen_attn

from .block_cache import BlockCache
from .query_tiles import to_device

if TYPE_CHECKING:
    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionBatch, AttentionSpec, LayerCall

__all__ = ["VarlenPagedAttention"]


class VarlenPagedAttention:
    """The implementation of ``TorchVarlenAttention``, which imports its kernel."""

    def __init__(self, spec: AttentionSpec, num_blocks: int) -> None:
        self._spec = spec
        self._cache = BlockCache(spec, num_blocks)

    def begin_step(self, batch: AttentionBatch) -> None:
        """Send the lengths."""
        self._batch = batch
        lengths = torch.tensor(list(batch.seq_lens), dtype=torch.int32)
        self._seq_lens = to_device([lengths], self._cache.device)
        self._most = max(batch.query_lens), max(batch.seq_lens)

    def forward(self, call: LayerCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``; what is refused does not come here."""
        batch, window = self._batch, self._spec.sliding_windows[call.layer]
        self._cache.write(call.layer, batch.slot_mapping, call.key, call.value)
        output = varlen_attn(
            call.query.contiguous(),
            self._cache.keys[call.layer],
            self._cache.values[call.layer],
            batch.query_start_loc,
            None,  # with block tables, seqused_k alone gives the lengths of keys
            *self._most,
            scale=call.scale,
            window_size=(-1 if window is None else window - 1, 0),
            enable_gqa=True,
            seqused_k=self._seq_lens,
            block_table=batch.block_tables,
        )
        assert isinstance(output, torch.Tensor)
        return output

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)
