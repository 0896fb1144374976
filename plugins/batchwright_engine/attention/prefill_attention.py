"""Attention of prompts, and pieces of them, a span at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dense_attention import attend, attend_by_hand

if TYPE_CHECKING:
    import torch

    from batchwright.protocols.attention import AttentionSpec, LayerCall

    from .paged_cache import PagedCache
    from .prefill_spans import PrefillSpan

__all__ = ["PrefillAttention"]


class PrefillAttention:
    """One call of torch's attention a span.

    Args:
        spec: The model's attention.
        cache: The cache of keys and values.
    """

    def __init__(self, spec: AttentionSpec, cache: PagedCache) -> None:
        self._spec = spec
        self._cache = cache
        self._group_size = spec.num_query_heads // spec.num_kv_heads

    def attend(self, call: LayerCall, span: PrefillSpan, output: torch.Tensor) -> None:
        """Compute a span; a row of what is attended to is one request's key head.

        ==========  ====================================================
        query       ``[num_reqs * num_kv_heads, group_size, n, head_size]``
        key, value  the same, one copy for all query heads of a group
        ==========  ====================================================

        Args:
            call: The layer, with the tokens of the whole batch.
            span: The work to compute.
            output: Like the query, filled in for this span.
        """
        spec, part = self._spec, slice(span.start, span.stop)
        tensors = call.query, call.key, call.value
        query, key, value = (_by_request(t[part], span.num_reqs) for t in tensors)
        if span.rows is not None:
            key, value = (
                t.view(1, spec.num_kv_heads, -1, spec.head_size)
                for t in self._cache.gather(call.layer, span.rows, span.blanks)
            )
        shape = (span.num_reqs * spec.num_kv_heads, self._group_size, -1, spec.head_size)
        result = self._attend(
            call,
            query.reshape(shape),
            key.flatten(0, 1).unsqueeze(1).expand(shape),
            value.flatten(0, 1).unsqueeze(1).expand(shape),
            span.bias,
        )
        _by_request(output[part], span.num_reqs).copy_(result.view(query.shape))

    def _attend(
        self,
        call: LayerCall,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        sinks = call.sinks
        if call.softcap is None and sinks is None:
            return attend(query, key, value, bias, call.scale)
        if sinks is not None:
            num_reqs = len(query) // self._spec.num_kv_heads
            sinks = sinks.view(-1, self._group_size, 1, 1).repeat(num_reqs, 1, 1, 1)
        return attend_by_hand(query, key, value, bias, call.scale, call.softcap, sinks)


def _by_request(tokens: torch.Tensor, num_reqs: int) -> torch.Tensor:
    """See ``[num_reqs * n, heads, size]`` as ``[num_reqs, heads, n, size]``."""
    shape = (num_reqs, tokens.shape[0] // num_reqs, *tokens.shape[1:])
    return tokens.view(shape).transpose(1, 2)
