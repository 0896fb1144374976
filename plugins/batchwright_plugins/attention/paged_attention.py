"""Attention over the paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from .decode_attention import DecodeAttention
from .dense_attention import attend, attend_by_hand
from .kept_groups import KeptGroups
from .paged_cache import PagedCache
from .step_layout import PrefillSpan, StepLayout, unused_slots

if TYPE_CHECKING:
    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionBatch, AttentionSpec

__all__ = ["PagedAttention"]

_CHUNK_TOKENS = {"cpu": 16_384, "cuda": 262_144}


class PagedAttention:
    """What ``TorchAttention`` does once torch is there; see its contract."""

    def __init__(
        self, spec: AttentionSpec, num_blocks: int, chunk_tokens: int | None, kept_bytes: int
    ) -> None:
        self._spec = spec
        self._cache = PagedCache(spec, num_blocks)
        self._keeper = KeptGroups(spec, kept_bytes) if spec.device == "cpu" else None
        self._decodes = DecodeAttention(spec, self._cache, self._keeper)
        self._dtype: torch.dtype = getattr(torch, spec.dtype)
        self._chunk_tokens = chunk_tokens or _CHUNK_TOKENS[spec.device]
        self._group_size = spec.num_query_heads // spec.num_kv_heads

    def begin_step(self, batch: AttentionBatch) -> None:
        """Lay out the step once for each window that some layer has."""
        self._slots = batch.slot_mapping
        self._unused = unused_slots(batch, self._cache.block_size)
        if self._keeper is not None:
            self._keeper.begin_step()
        self._layouts = {
            window: StepLayout(
                batch, self._cache, self._dtype, self._keeper, window, self._chunk_tokens
            )
            for window in dict.fromkeys(self._spec.sliding_windows)
        }
        layouts = self._layouts.values()
        self._cache.reserve(max(layout.num_rows for layout in layouts))
        self._decodes.reserve(max(layout.num_scores for layout in layouts))

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
        self._cache.write(layer, self._slots, key, value, self._unused)
        layout = self._layouts[self._spec.sliding_windows[layer]]
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        extra = softcap, sinks
        for group in layout.groups:
            self._decodes.attend(layer, group, (query, key, value), output, scale, extra)
        for span in layout.spans:
            self._prefill(layer, span, (query, key, value), output, scale, extra)
        return output

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)
        if copies and self._keeper is not None:
            self._keeper.forget()

    def _prefill(
        self,
        layer: int,
        span: PrefillSpan,
        tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        output: torch.Tensor,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
    ) -> None:
        """Compute a span; a row of what is attended to is one request's key head.

        ==========  ====================================================
        query       ``[num_reqs * num_kv_heads, group_size, n, head_size]``
        key, value  the same, one copy for all query heads of a group
        ==========  ====================================================
        """
        spec, part = self._spec, slice(span.start, span.stop)
        query, key, value = (_by_request(t[part], span.num_reqs) for t in tensors)
        if span.rows is not None:
            key, value = (
                t.view(1, spec.num_kv_heads, -1, spec.head_size)
                for t in self._cache.gather(layer, span.rows, span.blanks)
            )
        shape = (span.num_reqs * spec.num_kv_heads, self._group_size, -1, spec.head_size)
        result = self._attend(
            query.reshape(shape),
            key.flatten(0, 1).unsqueeze(1).expand(shape),
            value.flatten(0, 1).unsqueeze(1).expand(shape),
            span.bias,
            scale,
            extra,
        )
        _by_request(output[part], span.num_reqs).copy_(result.view(query.shape))

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
    ) -> torch.Tensor:
        softcap, sinks = extra
        if softcap is None and sinks is None:
            return attend(query, key, value, bias, scale)
        if sinks is not None:
            num_reqs = len(query) // self._spec.num_kv_heads
            sinks = sinks.view(-1, self._group_size, 1, 1).repeat(num_reqs, 1, 1, 1)
        return attend_by_hand(query, key, value, bias, scale, softcap, sinks)


def _by_request(tokens: torch.Tensor, num_reqs: int) -> torch.Tensor:
    """See ``[num_reqs * n, heads, size]`` as ``[num_reqs, heads, n, size]``."""
    shape = (num_reqs, tokens.shape[0] // num_reqs, *tokens.shape[1:])
    return tokens.view(shape).transpose(1, 2)
