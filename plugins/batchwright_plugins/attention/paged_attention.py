"""Attention over the paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from .dense_attention import attend, attend_by_hand
from .paged_cache import PagedCache
from .step_layout import DecodeGroup, PrefillSpan, StepLayout

if TYPE_CHECKING:
    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionBatch, AttentionSpec

__all__ = ["PagedAttention"]

_CHUNK_TOKENS = {"cpu": 16_384, "cuda": 262_144}


class PagedAttention:
    """What ``TorchAttention`` does once torch is there; see its contract."""

    def __init__(self, spec: AttentionSpec, num_blocks: int, chunk_tokens: int | None) -> None:
        self._spec = spec
        self._cache = PagedCache(spec, num_blocks)
        self._chunk_tokens = chunk_tokens or _CHUNK_TOKENS[spec.device]
        self._group_size = spec.num_query_heads // spec.num_kv_heads

    def begin_step(self, batch: AttentionBatch) -> None:
        """Lay out the step once for each window that some layer has."""
        self._slots = batch.slot_mapping
        self._layouts = {
            window: StepLayout(batch, self._cache, window, self._chunk_tokens)
            for window in dict.fromkeys(self._spec.sliding_windows)
        }
        self._cache.reserve(max(layout.num_rows for layout in self._layouts.values()))

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """See ``AttentionBackend.forward``.

        All tokens are written before any is read: a request may read blocks that
        another one fills in the same step.
        """
        self._cache.write(layer, self._slots, key, value)
        layout = self._layouts[self._spec.sliding_windows[layer]]
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        extra = softcap, sinks
        for group in layout.groups:
            self._decode(layer, group, query, output, scale, extra)
        for span in layout.spans:
            self._prefill(layer, span, (query, key, value), output, scale, extra)
        return output

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)

    def _decode(
        self,
        layer: int,
        group: DecodeGroup,
        query: torch.Tensor,
        output: torch.Tensor,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
    ) -> None:
        """Compute a group: the query heads of a key head are its rows of queries."""
        spec, num_reqs = self._spec, len(group.tokens)
        grouped = (num_reqs, spec.num_kv_heads, self._group_size, spec.head_size)
        keyed = (num_reqs, spec.num_kv_heads, -1, spec.head_size)
        key, value = self._cache.gather(layer, group.rows, group.blanks)
        result = self._attend(
            query.index_select(0, group.tokens).view(grouped),
            key.view(keyed),
            value.view(keyed),
            group.mask,
            scale,
            extra,
            (1, spec.num_kv_heads, self._group_size, 1),
        )
        output.index_copy_(0, group.tokens, result.reshape(num_reqs, *query.shape[1:]))

    def _prefill(
        self,
        layer: int,
        span: PrefillSpan,
        tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        output: torch.Tensor,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
    ) -> None:
        """Compute a span: the query heads of a key head are its batch of heads."""
        spec = self._spec
        by_head = (spec.num_kv_heads, self._group_size, -1, spec.head_size)
        query, key, value = (t[span.start : span.stop].transpose(0, 1) for t in tensors)
        if span.rows is not None and span.blanks is not None:
            key, value = (
                t.view(spec.num_kv_heads, -1, spec.head_size)
                for t in self._cache.gather(layer, span.rows, span.blanks)
            )
        result = self._attend(
            query.reshape(by_head),
            key.unsqueeze(1).expand(by_head[0], by_head[1], -1, -1),
            value.unsqueeze(1).expand(by_head[0], by_head[1], -1, -1),
            span.mask,
            scale,
            extra,
            (spec.num_kv_heads, self._group_size, 1, 1),
        )
        output[span.start : span.stop].copy_(result.flatten(0, 1).transpose(0, 1))

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
        sinks_shape: tuple[int, ...],
    ) -> torch.Tensor:
        softcap, sinks = extra
        if softcap is None and sinks is None:
            return attend(query, key, value, mask, scale)
        if sinks is not None:
            sinks = sinks.view(sinks_shape)
        return attend_by_hand(query, key, value, mask, scale, softcap, sinks)
