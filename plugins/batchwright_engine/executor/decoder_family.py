"""Families of decoders that are built alike, and their differences."""

from __future__ import annotations

import math
from typing import Any

from attrs import evolve, frozen

__all__ = ["FAMILIES", "Family", "family_of"]


@frozen(kw_only=True)
class Family:
    """A decoder of attention and a gated MLP, each added to a residual stream.

    Args:
        before_attention: Norm of what attention reads; None: none.
        after_attention: Norm of what it gives.
        before_mlp: Norm of what the MLP reads.
        after_mlp: Norm of what it gives.
        heads_norm: True if each query and key head is normalised before it is rotated.
        whole_norm: True if all query heads are together, and all key heads.
        gain_offset: Added to the gains of norms (Gemma: 1).
        embedding_factor: Factor on embeddings.
        residual_factor: Factor on what is added to the residual stream.
        logits_divisor: Divisor of logits.
        logits_cap: Logits become ``cap * tanh(logits / cap)``; None: they stay.
    """

    before_attention: str | None = "input_layernorm"
    after_attention: str | None = None
    before_mlp: str | None = "post_attention_layernorm"
    after_mlp: str | None = None
    heads_norm: bool = False
    whole_norm: bool = False
    gain_offset: float = 0.0
    embedding_factor: float = 1.0
    residual_factor: float = 1.0
    logits_divisor: float = 1.0
    logits_cap: float | None = None


_LLAMA = Family()
_GEMMA = Family(
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
    gain_offset=1.0,
)
_OLMO2 = Family(
    before_attention=None,
    after_attention="post_attention_layernorm",
    before_mlp=None,
    after_mlp="post_feedforward_layernorm",
    whole_norm=True,
)

FAMILIES = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "smollm3": _LLAMA,
    "phi3": _LLAMA,
    "granite": _LLAMA,
    "qwen3": evolve(_LLAMA, heads_norm=True),
    "olmo2": _OLMO2,
    "gemma2": _GEMMA,
    "gemma3_text": evolve(_GEMMA, heads_norm=True),
}
"""By ``model_type`` of a configuration."""


def family_of(config: Any) -> Family | None:
    """The family of a transformers configuration, with its factors; None: another one."""
    family = FAMILIES.get(config.model_type)
    if family is None:
        return None
    if config.model_type == "granite":
        return evolve(
            family,
            embedding_factor=config.embedding_multiplier,
            residual_factor=config.residual_multiplier,
            logits_divisor=config.logits_scaling,
        )
    if family.gain_offset:
        return evolve(
            family,
            embedding_factor=math.sqrt(config.hidden_size),
            logits_cap=config.final_logit_softcapping,
        )
    return family
