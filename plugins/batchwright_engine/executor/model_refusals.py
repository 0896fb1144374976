"""Models that paged attention over a flat batch cannot serve, with the reasons."""

from __future__ import annotations

from typing import Any

__all__ = ["refusal"]

_BIASED = "adds a position bias (ALiBi) to the scores, which attention backends lack"
_STATE = "keeps a recurrent state instead of a KV cache"
_OWN = (
    "computes attention by classes of its own in transformers, which let no attention "
    "backend take their place"
)
_BY_TYPE = {
    "bloom": _BIASED,
    "falcon": _OWN,
    "gpt_neo": _OWN,
    "mpt": _BIASED,
    "mamba": _STATE,
    "mamba2": _STATE,
    "falcon_mamba": _STATE,
    "rwkv": _STATE,
    "xlstm": _STATE,
    "jamba": _STATE,
    "bamba": _STATE,
    "zamba": _STATE,
    "zamba2": _STATE,
    "recurrent_gemma": _STATE,
}
_LAYER_TYPES = ("full_attention", "sliding_attention")


def refusal(config: Any, max_model_len: int | None) -> str | None:
    """Return the reason why a model cannot be served, by its configuration alone.

    Args:
        config: The transformers configuration.
        max_model_len: Longest request asked for (tokens); None: the model's.
    """
    text = config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        return "it has an encoder and a decoder; only decoders are served"
    for model_type in (config.model_type, text.model_type):
        if model_type in _BY_TYPE:
            reason = _BIASED if getattr(text, "alibi", False) else _BY_TYPE[model_type]
            if reason is not _STATE or not _attends_only(text):
                return f"a {model_type} model {reason}"
    return _layers(text) or _rope(text, max_model_len) or _positions(text, max_model_len)


def _attends_only(text: Any) -> bool:
    """Return True if a model that may mix layers with and without state has none with."""
    kinds = getattr(text, "layer_types", None) or ()
    return bool(kinds) and all(kind in _LAYER_TYPES for kind in kinds)


def _layers(text: Any) -> str | None:
    if getattr(text, "is_causal", True) is False:
        return "its attention is bidirectional"
    if getattr(text, "num_kv_shared_layers", 0):
        return "some of its layers use the keys and values of others"
    kinds = getattr(text, "layer_types", None) or ()
    foreign = sorted({kind for kind in kinds if kind not in _LAYER_TYPES})
    if foreign:
        return f"it has layers of type {', '.join(foreign)}; served: {', '.join(_LAYER_TYPES)}"
    if not getattr(text, "num_hidden_layers", None):
        return "its configuration does not say how many layers it has"
    return None


def _rope(text: Any, max_model_len: int | None) -> str | None:
    """Frequencies must not depend on the longest request of a batch."""
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type"))
    most = getattr(text, "max_position_embeddings", None) or 0
    if kind == "dynamic" and (max_model_len or most) > most:
        return (
            f"its rotary frequencies depend on the longest request in a batch (dynamic) behind "
            f"{most} positions: set model.max_model_len to at most {most}"
        )
    if kind == "longrope":
        original = rope.get(
            "original_max_position_embeddings",
            getattr(text, "original_max_position_embeddings", None),
        )
        if original and (max_model_len or text.max_position_embeddings) > original:
            return (
                "its rotary frequencies change behind the original context (longrope): "
                f"set model.max_model_len to at most {original}"
            )
    return None


def _positions(text: Any, max_model_len: int | None) -> str | None:
    most = getattr(text, "max_position_embeddings", None)
    if most and max_model_len and max_model_len > most:
        return f"it has {most} positions, and model.max_model_len asks for {max_model_len}"
    return None
