"""Checks of a checkpoint against its config.json, before any weight is used."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from batchwright.exceptions import ModelError

__all__ = [
    "Dims",
    "StoredWeight",
    "check_config",
    "check_shapes",
    "config_problem",
    "contradiction",
    "llama_weights",
    "stored_weights",
    "token_ids",
]

Dims = tuple[tuple[str, ...], ...]
"""By dimension of a weight, the options of config.json whose product is its size."""

_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
_SIZES = (
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
)
_FLAGS = ("attention_bias", "mlp_bias", "tie_word_embeddings")
_MOST = 2**31 - 1
_TOKEN_IDS = "expected a token id or a list of them"
_POSITIVE = ("rms_norm_eps", "rope_theta")


@frozen
class StoredWeight:
    """A weight as the header of its file describes it.

    Args:
        shape: Size by dimension.
        dtype: As safetensors writes it, e.g. ``BF16``.
        file: The file that holds it.
    """

    shape: tuple[int, ...]
    dtype: str
    file: Path


def stored_weights(folder: Path, name: str) -> dict[str, StoredWeight]:
    """Read the headers of a folder's safetensors files; empty if there are none.

    Args:
        folder: A Hugging Face folder.
        name: The model's name in errors.

    Raises:
        ModelError: A file is missing, truncated or no safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    found: dict[str, StoredWeight] = {}
    for path in _files(folder, name):
        try:
            with safe_open(path, "pt") as file:
                for key in file.keys():  # noqa: SIM118 (it is no mapping)
                    part = file.get_slice(key)
                    found[key] = StoredWeight(tuple(part.get_shape()), part.get_dtype(), path)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"model {name} cannot be loaded: {path}: {error}") from error
    return found


def _files(folder: Path, name: str) -> list[Path]:
    """The files of weights that transformers would read."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file() or not index.is_file():
        return [whole] if whole.is_file() else []
    try:
        files = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return [folder / file for file in sorted(set(files))]
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        what = f"{index} has no weight_map: {type(error).__name__}: {error}"
        raise ModelError(f"model {name} cannot be loaded: {what}") from error


def check_config(folder: Path, name: str, stored: Mapping[str, StoredWeight]) -> None:
    """Refuse a config.json with values that no model can have.

    Args:
        folder: A Hugging Face folder. A config.json that cannot be read is not its concern.
        name: The model's name in errors.
        stored: Its weights.

    Raises:
        ModelError: Names the option and its value.
    """
    path = folder / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return
    if not isinstance(values, dict):
        raise ModelError(f"model {name}: {path} holds no table, but {values!r:.40}")
    for table in (values, values.get("text_config")):
        if not isinstance(table, dict):
            continue
        problem = config_problem(table)
        layers = table.get("num_hidden_layers") or 0
        if problem is None and stored and layers > len(stored):
            holders = ", ".join(dict.fromkeys(str(weight.file) for weight in stored.values()))
            problem = f"num_hidden_layers = {layers}, but {holders} has {len(stored)} weights"
        if problem is not None:
            raise ModelError(f"model {name}: {path}: {problem}")


def config_problem(values: Mapping[str, Any]) -> str | None:
    """The first value of a configuration that no model can have; None: there is none.

    Args:
        values: Content of config.json.
    """
    for key in _SIZES:
        value = values.get(key)
        if value is None or isinstance(value, list):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
            return f"{key} = {value!r}; expected an integer from 1 to {_MOST}"
    for key in _FLAGS:
        if not isinstance(values.get(key, False), bool | None):
            return f"{key} = {values[key]!r}; expected true or false"
    for key in _POSITIVE:
        value = values.get(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 < value < math.inf):
            return f"{key} = {value!r}; expected a positive number"
    if not _are_token_ids(values.get("eos_token_id")):
        return f"eos_token_id = {values['eos_token_id']!r}; {_TOKEN_IDS}"
    heads, kv_heads = values.get("num_attention_heads"), values.get("num_key_value_heads")
    if isinstance(heads, int) and isinstance(kv_heads, int) and heads % kv_heads:
        return f"num_attention_heads = {heads} cannot share num_key_value_heads = {kv_heads} evenly"
    return None


def llama_weights(config: Any) -> dict[str, Dims]:
    """All weights of a Llama but its head, with what config.json says of their sizes."""
    hidden, inner = ("hidden_size",), ("intermediate_size",)
    queries, keys = ("num_attention_heads", "head_dim"), ("num_key_value_heads", "head_dim")
    products = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    found: dict[str, Dims] = {"model.embed_tokens.weight": (("vocab_size",), hidden)}
    for index in range(config.num_hidden_layers):
        prefix = f"model.layers.{index}."
        found[f"{prefix}input_layernorm.weight"] = (hidden,)
        found[f"{prefix}post_attention_layernorm.weight"] = (hidden,)
        for part, dims in products.items():
            found[f"{prefix}{part}.weight"] = dims
            if config.mlp_bias if part.startswith("mlp.") else config.attention_bias:
                found[f"{prefix}{part}.bias"] = dims[:1]
    return {**found, "model.norm.weight": (hidden,)}


def contradiction(
    weight: str, shape: Iterable[int], dims: Dims, config: Any, file: Path
) -> str | None:
    """Say how a weight's shape contradicts a configuration; None if it does not.

    Args:
        weight: Its name.
        shape: Size by dimension, in the file.
        dims: Its value in the configuration.
        config: The configuration, with an attribute an option.
        file: The file that holds it.
    """
    stored = list(shape)
    wanted = [math.prod(getattr(config, key) for key in keys) for keys in dims]
    if stored == wanted:
        return None
    sizes = [*stored, *[None] * len(wanted)]
    odd = [keys for keys, size, want in zip(dims, sizes, wanted, strict=False) if size != want]
    options = dict.fromkeys(key for keys in odd or dims for key in keys)
    said = ", ".join(f"{key} = {getattr(config, key)}" for key in options)
    return f"{weight} is {stored} in {file}, but config.json makes it {wanted} ({said})"


def check_shapes(
    stored: Mapping[str, StoredWeight], wanted: Mapping[str, tuple[int, ...]], name: str
) -> None:
    """Refuse weights of another shape than a model's, or that are no numbers to compute with.

    Args:
        stored: Weights of the files.
        wanted: Shapes by name; weights of other names are not looked at.
        name: The model's name in errors.

    Raises:
        ModelError: Names weight, file and both shapes.
    """
    problem = next(_shape_problems(stored, wanted), None)
    if problem is not None:
        raise ModelError(f"model {name}: {problem}")


def _shape_problems(
    stored: Mapping[str, StoredWeight], wanted: Mapping[str, tuple[int, ...]]
) -> Iterator[str]:
    for key, weight in stored.items():
        if key not in wanted:
            continue
        if weight.shape != wanted[key]:
            yield (
                f"{key} is {list(weight.shape)} in {weight.file}, but config.json makes it "
                f"{list(wanted[key])}"
            )
        if weight.dtype not in _FLOATS:
            yield (
                f"{key} is stored as {weight.dtype} in {weight.file}, and config.json names no "
                f"quantization; expected one of {', '.join(_FLOATS)}"
            )


def token_ids(value: Any, name: str, path: Path) -> tuple[int, ...]:
    """End-of-sequence tokens, given as one, as several or as None.

    Args:
        value: Value of ``eos_token_id``.
        name: The model's name in errors.
        path: The file or folder that says it.

    Raises:
        ModelError: It is something else.
    """
    if not _are_token_ids(value):
        raise ModelError(f"model {name}: {path}: eos_token_id = {value!r}; {_TOKEN_IDS}")
    return tuple(_listed(value))


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [] if value is None else [value]


def _are_token_ids(value: Any) -> bool:
    return all(isinstance(item, int) and not isinstance(item, bool) for item in _listed(value))
