"""Proves that a model taken apart computes what its modules compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from batchwright.protocols.attention import LayerCall

    from .language_model import LanguageModel

__all__ = ["CausalAttention", "relative_difference"]

_NUM_TOKENS = 24


class CausalAttention:
    """Attention of one sequence over itself, in float32, without a cache.

    Args:
        windows: By layer, tokens that a query sees, itself included; None: all.
    """

    def __init__(self, windows: Sequence[int | None]) -> None:
        self._windows = windows

    def forward(self, call: LayerCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``; sinks take no weight here."""
        count, group = len(call.query), call.query.shape[1] // call.key.shape[1]
        by_head = [t.float().transpose(0, 1) for t in (call.query, call.key, call.value)]
        keys, values = (t.repeat_interleave(group, 0) for t in by_head[1:])
        scores = by_head[0] @ keys.transpose(1, 2) * call.scale
        if call.softcap is not None:
            scores = torch.tanh(scores / call.softcap) * call.softcap
        seen = torch.ones(count, count, dtype=torch.bool, device=call.query.device).tril()
        window = self._windows[call.layer]
        if window is not None:
            seen = seen.triu(1 - window)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return (weights @ values).transpose(0, 1).contiguous().to(call.query.dtype)


@torch.inference_mode()
def relative_difference(
    model: LanguageModel, reference: LanguageModel, windows: Sequence[int | None], vocab_size: int
) -> float:
    """Return the difference of two models' logits, as a share of their size.

    Args:
        model: One model.
        reference: The other.
        windows: By layer, tokens that a query sees; None: all.
        vocab_size: Token ids are below this.

    Returns:
        ``|a - b| / |b|`` over the logits of a few tokens; infinite if they are not finite.
    """
    positions = torch.arange(_NUM_TOKENS)
    token_ids = positions * 7919 % vocab_size
    attention = CausalAttention(windows)
    actual, expected = (
        m.forward(token_ids, positions, positions, attention) for m in (model, reference)
    )
    assert actual is not None
    assert expected is not None
    share = ((actual.double() - expected.double()).norm() / expected.double().norm()).item()
    return share if share == share else float("inf")
