"""Load a decoder from a folder, with the facts for serving it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from batchwright.exceptions import ModelError
from batchwright.protocols.attention import AttentionSpec

from . import attention_bridge
from .attention_bridge import ModuleCall
from .attention_probe import probe
from .decoder_builder import build_decoder
from .decoder_proof import relative_difference
from .direct_loading import DTYPES, load_directly
from .language_model import LanguageModel, TransformersModel
from .loaded_model import LoadedModel
from .model_refusals import refusal
from .model_shape import without_weights
from .plain_config import read_plain_config
from .weight_check import StoredWeight, check_config, check_shapes, stored_weights, token_ids

__all__ = ["load_model", "pick_device"]

_LAYER = re.compile(r"(.*?(?:^|\.)(?:layers|h|blocks))\.(\d+)\.")
_TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2, "float16": 1e-2}  # of logits, by type
_DEFAULT_MODEL_LEN = 8192  # tokens, where neither the model nor the configuration says


def pick_device(name: str) -> torch.device:
    """The device that an option names.

    Raises:
        ModelError: CUDA is asked for and there is none.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ModelError(
            'executor.torch.device is "cuda", but torch finds no CUDA device here; '
            'use "cpu" or "auto"'
        )
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def load_model(
    folder: Path, name: str, dtype: str, max_model_len: int | None, device: torch.device
) -> LoadedModel:
    """Load a causal language model whose attention goes through the bridge.

    Args:
        folder: A Hugging Face folder: config.json and safetensors.
        name: Name of the model in errors.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        max_model_len: Longest request asked for (tokens); None: the model's.
        device: Device of the model.

    Raises:
        ModelError: It cannot be loaded or not be served; says why.
    """
    if dtype not in ("auto", *DTYPES):
        raise ModelError(f"model.dtype must be one of auto, {', '.join(DTYPES)}, not {dtype!r}")
    stored = stored_weights(folder, name)
    check_config(folder, name, stored)
    plain = read_plain_config(folder) if device.type == "cpu" else None
    config = plain or _config(folder, name)
    reason = refusal(config, max_model_len)
    if reason is not None:
        raise ModelError(f"model {name} cannot be served: {reason}")
    if plain is not None:
        directly = load_directly(folder, name, plain, stored, dtype, max_model_len)
        if directly is not None:
            return directly
    attention_bridge.register()
    _check_stored(folder, name, dtype, stored)
    model = _weights(folder, name, dtype, device)
    text = model.config.get_text_config()
    longest = max_model_len or getattr(text, "max_position_embeddings", None) or _DEFAULT_MODEL_LEN
    spec, calls = probe(model, name, device)
    return LoadedModel(
        model=_fastest(model, spec, calls, longest),
        spec=spec,
        device=device,
        vocab_size=text.vocab_size,
        max_model_len=longest,
        eos_token_ids=_eos_token_ids(model, name, folder),
        num_parameters=sum(p.numel() for p in model.parameters()),
        products=_products(model),
    )


def _fastest(
    model: Any, spec: AttentionSpec, calls: Sequence[ModuleCall], longest: int
) -> LanguageModel:
    """The model taken apart, if it then answers the same; else its own modules."""
    reference = TransformersModel(model)
    with torch.inference_mode():
        decoder = build_decoder(model, calls, longest)
    if decoder is None:
        return reference
    vocab_size = len(decoder.embeddings)
    difference = relative_difference(decoder, reference, spec.sliding_windows, vocab_size)
    return decoder if difference <= _TOLERANCE[spec.dtype] else reference


def _config(folder: Path, name: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise ModelError(f"model {name}: its configuration cannot be read: {error}") from error


def _check_stored(folder: Path, name: str, dtype: str, stored: Mapping[str, StoredWeight]) -> None:
    """Compare the shapes of weights with those of a model that is made without any."""
    model = without_weights(folder, dtype)
    if model is None or getattr(model.config, "quantization_config", None) is not None:
        return
    wanted = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    check_shapes(stored, wanted, name)


def _weights(folder: Path, name: str, dtype: str, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM

    place = {} if device.type == "cpu" else {"device_map": {"": str(device)}}
    try:
        with _no_progress_bar():
            model, info = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=dtype if dtype == "auto" else getattr(torch, dtype),
                attn_implementation=attention_bridge.NAME,
                local_files_only=True,
                output_loading_info=True,
                **place,
            )
    except Exception as error:
        raise ModelError(f"model {name} cannot be loaded: {error}") from error
    missing = sorted(info["missing_keys"])
    if missing:
        raise ModelError(
            f"model {name}: {len(missing)} weights are missing in {folder}, "
            f"the first is {missing[0]}"
        )
    surplus = _surplus(model, info["unexpected_keys"])
    if surplus is not None:
        raise ModelError(f"model {name}: {folder} contradicts its config.json: {surplus}")
    return model.eval().requires_grad_(False)


def _surplus(model: Any, names: Iterable[str]) -> str | None:
    """Say which weight of the files belongs to the model and has no place in it.

    What belongs to a module that the model has not, such as a tower for images, is none.

    Args:
        model: As config.json has it.
        names: Weights that it did not take.
    """
    modules = dict(model.named_modules())
    for name in sorted(names):
        parent, _, last = name.rpartition(".")
        layer = _LAYER.match(name)
        found = modules.get(layer[1]) if layer else None
        layers = found if isinstance(found, torch.nn.ModuleList) else None
        if layer and layers is not None and int(layer[2]) >= len(layers):
            return f"it has {name}, and num_hidden_layers = {len(layers)}"
        if (layers is not None or parent in modules) and last != "inv_freq":
            return f"it has {name}, which such a model has not"
    return None


def _products(model: Any) -> Counter[tuple[int, int]]:
    modules = (module for module in model.modules() if isinstance(module, torch.nn.Linear))
    return Counter((module.out_features, module.in_features) for module in modules)


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Keep transformers from drawing over what the caller shows."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _eos_token_ids(model: Any, name: str, folder: Path) -> tuple[int, ...]:
    """End-of-sequence tokens: those for generation, else the configuration's."""
    for source in (model.generation_config, model.config.get_text_config()):
        value = getattr(source, "eos_token_id", None)
        if value is not None:
            return token_ids(value, name, folder)
    return ()
