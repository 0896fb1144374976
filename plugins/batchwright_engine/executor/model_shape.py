"""Find a model's requirements of an attention backend without loading its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from attrs import evolve

from batchwright.exceptions import ModelError
from batchwright.protocols.attention import AttentionSpec

from . import attention_bridge
from .attention_probe import probe
from .weight_check import check_config, stored_weights

__all__ = ["shape_of", "without_weights"]


def shape_of(folder: Path, name: str, dtype: str, device: torch.device) -> AttentionSpec | None:
    """Probe a model whose weights have shapes and no memory.

    Args:
        folder: A Hugging Face folder; of its weights only the headers are read.
        name: Name of the model in errors.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        device: Device of the model.

    Returns:
        Its requirements; None if only its weights have them.

    Raises:
        ModelError: It cannot be served; says why.
    """
    check_config(folder, name, stored_weights(folder, name))
    model = without_weights(folder, dtype)
    if model is None:
        return None
    try:
        spec, _ = probe(model, name, torch.device("meta"))
    except ModelError as error:
        if error.__cause__ is not None:  # the forward pass itself wants numbers
            return None
        raise
    return evolve(spec, device=device.type)


def without_weights(folder: Path, dtype: str) -> Any:
    """Make a model on the device ``meta``; None if it cannot be made there.

    Args:
        folder: A Hugging Face folder; only its config.json is read.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    attention_bridge.register()
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        stored = getattr(config.get_text_config(), "dtype", None) or torch.float32
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(
                config,
                dtype=stored if dtype == "auto" else getattr(torch, dtype),
                attn_implementation=attention_bridge.NAME,
            )
    except Exception:
        return None
    return model.eval()
