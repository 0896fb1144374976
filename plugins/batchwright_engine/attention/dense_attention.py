"""Attention of some queries over some keys: fused where torch can, by hand elsewhere."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

__all__ = ["attend", "attend_by_hand"]

_MOST_SCORES = 1 << 24  # float32 scores held at once by hand: 64 MiB


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    """Attention by torch's fused kernel.

    Args:
        query: ``[a, b, num_queries, head_size]``.
        key: ``[a, b, num_keys, head_size]``; masked ones are finite.
        value: ``[a, b, num_keys, head_size]``; masked ones are finite.
        bias: ``[num_queries, num_keys]``, added to the scores; None: causal, with as
            many keys as queries.
        scale: Factor on the scores.

    Returns:
        ``[a, b, num_queries, head_size]``.
    """
    return scaled_dot_product_attention(
        query, key, value, attn_mask=bias, is_causal=bias is None, scale=scale
    )


def attend_by_hand(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention with what the fused kernel lacks, in float32, some queries at a time.

    Args:
        query: As in ``attend``.
        key: As in ``attend``.
        value: As in ``attend``.
        bias: As in ``attend``.
        scale: Factor on the scores.
        softcap: Scores become ``softcap * tanh(score / softcap)`` (Gemma-2).
        sinks: An extra logit a query head that takes weight and gives no value
            (gpt-oss), broadcastable to ``[a, b, num_queries, 1]``.

    Returns:
        ``[a, b, num_queries, head_size]``.
    """
    if bias is None:
        bias = torch.full((query.shape[2], key.shape[2]), -torch.inf, device=query.device)
        bias = bias.triu_(1)
    keys, values = key.float().transpose(-2, -1), value.float()
    step = max(1, _MOST_SCORES // (query.shape[0] * query.shape[1] * key.shape[2]))
    parts = []
    for start in range(0, query.shape[2], step):
        part = slice(start, start + step)
        scores = torch.matmul(query[:, :, part].float() * scale, keys)
        if softcap is not None:
            scores = (scores / softcap).tanh_().mul_(softcap)
        scores += bias[part]
        some = None if sinks is None else sinks.expand(-1, -1, query.shape[2], -1)[:, :, part]
        parts.append(torch.matmul(_weights(scores, some), values))
    return torch.cat(parts, 2).to(query.dtype)


def _weights(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    if sinks is None:
        return scores.softmax(-1)
    column = sinks.float().expand(*scores.shape[:-1], 1)
    return torch.cat((scores, column), -1).softmax(-1)[..., :-1]
