"""Configurations that need no library to be understood."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .weight_check import config_problem

__all__ = ["PlainConfig", "read_plain_config"]

_DEFAULTS: dict[str, Any] = {
    "attention_bias": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "head_dim": None,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "mlp_bias": False,
    "num_key_value_heads": None,
    "pad_token_id": None,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
    "tie_word_embeddings": False,
}
_REQUIRED = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "vocab_size",
)
_WITHOUT_EFFECT = (
    "architectures",
    "attention_dropout",
    "dtype",
    "initializer_range",
    "model_type",
    "pretraining_tp",
    "torch_dtype",
    "transformers_version",
    "use_cache",
)


class PlainConfig(SimpleNamespace):
    """A Llama's configuration, with the attributes that transformers' would have."""

    model_type = "llama"
    is_encoder_decoder = False

    def get_text_config(self) -> PlainConfig:
        """Itself: there is nothing but text."""
        return self


def read_plain_config(folder: Path) -> PlainConfig | None:
    """Read a Llama's configuration, if it says nothing that is not understood here.

    Args:
        folder: A Hugging Face folder with one file of weights.

    Returns:
        None if anything about it is unusual: transformers reads it then.
    """
    try:
        values: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    known = {*_DEFAULTS, *_REQUIRED, *_WITHOUT_EFFECT}
    rope = values.pop("rope_parameters", None) or {}
    is_default = isinstance(rope, dict) and rope.pop("rope_type", "default") == "default"
    if not is_default or rope.keys() > {"rope_theta"}:
        return None
    values |= rope
    given = {key for key, value in values.items() if value is not None}
    is_plain = values.get("model_type") == "llama" and given <= known and given >= set(_REQUIRED)
    is_plain &= values.get("hidden_act", "silu") == "silu"
    if not is_plain or not (folder / "model.safetensors").is_file() or config_problem(values):
        return None
    config = PlainConfig(**{**_DEFAULTS, **{key: values[key] for key in given}})
    config.num_key_value_heads = config.num_key_value_heads or config.num_attention_heads
    config.head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
    return None if config.head_dim % 2 else config  # rotated in pairs
