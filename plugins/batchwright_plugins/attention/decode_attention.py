"""Attention of requests with one token each, a group at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionSpec

    from .paged_cache import PagedCache
    from .step_layout import DecodeGroup

__all__ = ["DecodeAttention"]


class DecodeAttention:
    """Two batched matrix products a group, with room that is reused from layer to layer.

    The query heads that share a key head are the rows of one product. On a CPU this
    takes half the time of the fused kernel, whose tasks are one head of one request:
    with a single query, starting them costs more than computing them. Scores are in
    the model's type, as they are in transformers' own products; with a soft cap or
    sinks, in float32.

    Args:
        spec: The model's attention.
        cache: Where keys and values are.
    """

    def __init__(self, spec: AttentionSpec, cache: PagedCache) -> None:
        self._cache = cache
        self._num_heads = spec.num_query_heads
        self._num_kv_heads = spec.num_kv_heads
        self._group_size = spec.num_query_heads // spec.num_kv_heads
        self._head_size = spec.head_size
        self._options = {"dtype": getattr(torch, spec.dtype), "device": spec.device}
        self._scores = torch.empty(0, **self._options)
        self._weights = torch.empty(0, **self._options)

    def reserve(self, num_scores: int) -> None:
        """Make room for this many pairs of a decode and a key."""
        if num_scores * self._num_heads > len(self._scores):
            self._scores = torch.empty(num_scores * self._num_heads, **self._options)
            self._weights = torch.empty_like(self._scores)

    def attend(
        self,
        layer: int,
        group: DecodeGroup,
        query: torch.Tensor,
        output: torch.Tensor,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
    ) -> None:
        """Compute a group.

        Args:
            layer: Index of the layer.
            group: Who is computed.
            query: ``[num_tokens, num_query_heads, head_size]``, the whole batch.
            output: Like ``query``, filled in for this group.
            scale: Factor on the scores.
            extra: Soft cap and sinks, each None where there is none.
        """
        num_rows = group.num_reqs * self._num_kv_heads
        key, value = (
            tokens.view(num_rows, group.num_keys, self._head_size)
            for tokens in self._cache.gather(layer, group.rows, group.blanks)
        )
        some = query if group.tokens is None else query.index_select(0, group.tokens)
        rows = some.reshape(num_rows, self._group_size, self._head_size)
        weights = self._weights_of(group, rows, key.transpose(1, 2), scale, extra)
        if group.tokens is None:
            torch.bmm(weights, value, out=output.view(rows.shape))
        else:
            result = torch.bmm(weights, value).view(some.shape)
            output.index_copy_(0, group.tokens, result)

    def _weights_of(
        self,
        group: DecodeGroup,
        query: torch.Tensor,
        key: torch.Tensor,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
    ) -> torch.Tensor:
        shape = (len(query), self._group_size, group.num_keys)
        if extra != (None, None):
            return self._unusual(group, query, key, scale, extra)
        size = len(query) * self._group_size * group.num_keys
        scores = self._scores[:size].view(shape)
        torch.baddbmm(group.bias, query, key, alpha=scale, out=scores)
        return torch.softmax(scores, -1, out=self._weights[:size].view(shape))

    def _unusual(
        self,
        group: DecodeGroup,
        query: torch.Tensor,
        key: torch.Tensor,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
    ) -> torch.Tensor:
        """With a soft cap (Gemma-2) or sinks (gpt-oss), in float32."""
        softcap, sinks = extra
        scores = torch.bmm(query.float() * scale, key.float())
        if softcap is not None:
            scores = scores.div_(softcap).tanh_().mul_(softcap)
        scores += group.bias
        if sinks is None:
            return scores.softmax(-1).to(query.dtype)
        column = sinks.float().view(-1, self._group_size, 1).repeat(group.num_reqs, 1, 1)
        return torch.cat((scores, column), -1).softmax(-1)[..., :-1].to(query.dtype).contiguous()
