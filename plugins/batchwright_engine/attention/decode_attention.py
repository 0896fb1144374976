"""Attention of requests with one token each, a group at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionSpec, LayerCall

    from .decode_groups import DecodeGroup
    from .kept_groups import KeptGroups
    from .paged_cache import PagedCache

__all__ = ["DecodeAttention"]


class DecodeAttention:
    """Batched matrix products over a group, with room that is reused layer by layer.

    The query heads that share a key head are the rows of one product. On a CPU this
    takes half the time of the fused kernel, whose tasks are one head of one request:
    with a single query, starting them costs more than computing them. Keys that all
    requests of a group begin with are gathered once, and are one product for all of
    them; one softmax goes over both parts.

    Scores are in the model's type, as they are in transformers' own products; with a
    soft cap or sinks, in float32.

    =======  =======================================================
    tensor   shape
    =======  =======================================================
    queries  ``[num_kv_heads, num_reqs, group_size, head_size]``
    scores   ``[num_kv_heads, num_reqs, group_size, num_shared + num_keys]``
    =======  =======================================================

    Args:
        spec: The model's attention.
        cache: The cache of keys and values.
        keeper: Keeps what is gathered; None: nothing is kept.
    """

    def __init__(self, spec: AttentionSpec, cache: PagedCache, keeper: KeptGroups | None) -> None:
        self._cache = cache
        self._keeper = keeper
        self._num_heads = spec.num_query_heads
        self._num_kv_heads = spec.num_kv_heads
        self._group_size = spec.num_query_heads // spec.num_kv_heads
        self._head_size = spec.head_size
        self._options = {"dtype": getattr(torch, spec.dtype), "device": spec.device}
        self._nothing = torch.zeros(1, 1, 1, **self._options)
        self._scores = torch.empty(0, **self._options)
        self._weights = torch.empty(0, **self._options)

    def reserve(self, num_scores: int) -> None:
        """Make room for this many pairs of a decode and a key."""
        if num_scores * self._num_heads > len(self._scores):
            self._scores = torch.empty(num_scores * self._num_heads, **self._options)
            self._weights = torch.empty_like(self._scores)

    def attend(self, call: LayerCall, group: DecodeGroup, output: torch.Tensor) -> None:
        """Compute a group.

        Args:
            call: The layer, with the tokens of the whole batch.
            group: The computed requests.
            output: Like the query, filled in for this group.
        """
        some = _of(group, call.query)
        shape = (group.num_reqs, self._num_kv_heads, self._group_size, self._head_size)
        queries = some.view(shape).transpose(0, 1).contiguous()
        shared_key = shared_value = None
        if group.shared_rows is not None:
            shared_key, shared_value = self._cache.gather(call.layer, group.shared_rows, None)
        key, value = self._own(call, group)
        scores = self._score(group, queries, key, shared_key, call.scale)
        weights = self._weigh(scores, group.num_reqs, call)
        result = self._sum(group, weights, value, shared_value)
        result = result.view(queries.shape).transpose(0, 1)
        if group.tokens is None:
            output.view(shape).copy_(result)
        else:
            output.index_copy_(0, group.tokens, result.reshape(some.shape))

    def _own(self, call: LayerCall, group: DecodeGroup) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values, ``[num_kv_heads * num_reqs, num_keys, head_size]``."""
        num_rows = self._num_kv_heads * group.num_reqs
        if group.kept is None:
            assert group.rows is not None
            gathered = self._cache.gather(call.layer, group.rows, group.blanks, group.begin)
            key, value = (t.view(num_rows, -1, self._head_size) for t in gathered)
            return key, value
        assert self._keeper is not None
        room = self._keeper.room(group.kept, call.layer, group.num_reqs)
        if group.rows is not None:
            self._cache.gather_into(call.layer, group.rows, room)
        else:
            halves = room.view(2, -1, self._head_size)
            for half, tokens in zip(halves, (call.key, call.value), strict=True):
                new = _of(group, tokens).transpose(0, 1).reshape(num_rows, self._head_size)
                half.index_copy_(0, group.places, new)
        return room[:num_rows], room[num_rows:]

    def _by_head(self, tokens: torch.Tensor) -> torch.Tensor:
        """Gathered tokens as ``[num_kv_heads, num_keys, head_size]``."""
        return tokens.view(self._num_kv_heads, -1, self._head_size)

    def _score(
        self,
        group: DecodeGroup,
        query: torch.Tensor,
        key: torch.Tensor,
        shared: torch.Tensor | None,
        scale: float,
    ) -> torch.Tensor:
        """Scores of both parts, ``[num_kv_heads * num_reqs, group_size, all keys]``."""
        rows = query.flatten(0, 1)
        if shared is None:
            scores = self._room(self._scores, rows, group.num_keys)
            return torch.baddbmm(group.bias, rows, key.transpose(1, 2), alpha=scale, out=scores)
        own = torch.baddbmm(group.bias, rows, key.transpose(1, 2), alpha=scale)
        common = torch.baddbmm(
            self._nothing,
            query.flatten(1, 2),
            self._by_head(shared).transpose(1, 2),
            beta=0,
            alpha=scale,
        )
        scores = self._room(self._scores, rows, group.num_shared + group.num_keys)
        parts = (common.view(*rows.shape[:2], -1), own)
        return torch.cat(parts, -1, out=scores)

    def _room(self, room: torch.Tensor, rows: torch.Tensor, num_keys: int) -> torch.Tensor:
        shape = (*rows.shape[:2], num_keys)
        return room[: rows.shape[0] * self._group_size * num_keys].view(shape)

    def _weigh(self, scores: torch.Tensor, num_reqs: int, call: LayerCall) -> torch.Tensor:
        softcap, sinks = call.softcap, call.sinks
        if softcap is None and sinks is None:
            weights = self._room(self._weights, scores, scores.shape[-1])
            return torch.softmax(scores, -1, out=weights)
        wide = scores.float()  # the same tensor if it is float32 already
        if softcap is not None:
            hidden = wide == -torch.inf
            wide = wide.div_(softcap).tanh_().mul_(softcap).masked_fill_(hidden, -torch.inf)
        if sinks is None:
            return wide.softmax(-1).to(scores.dtype)
        column = sinks.float().view(self._num_kv_heads, 1, self._group_size, 1)
        column = column.expand(-1, num_reqs, -1, -1).flatten(0, 1)
        return torch.cat((wide, column), -1).softmax(-1)[..., :-1].to(scores.dtype)

    def _sum(
        self,
        group: DecodeGroup,
        weights: torch.Tensor,
        value: torch.Tensor,
        shared: torch.Tensor | None,
    ) -> torch.Tensor:
        """Values, weighed: ``[num_kv_heads * num_reqs, group_size, head_size]``."""
        if shared is None:
            return torch.bmm(weights, value)
        by_head = weights.view(self._num_kv_heads, -1, weights.shape[-1])
        common = torch.bmm(by_head[..., : group.num_shared], self._by_head(shared))
        own = weights[..., group.num_shared :]
        return common.view(*own.shape[:2], -1).baddbmm_(own, value)


def _of(group: DecodeGroup, tokens: torch.Tensor) -> torch.Tensor:
    """Return the group's rows of a step's tokens."""
    return tokens if group.tokens is None else tokens.index_select(0, group.tokens)
