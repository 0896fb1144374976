"""Load a plain Llama from its file of weights, without transformers.

Importing transformers and building its modules takes seconds; mapping the file and
laying out the weights takes tenths of one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from batchwright.exceptions import ModelError
from batchwright.protocols.attention import AttentionSpec

from .decoder_builder import DecoderBuilder, Scores
from .decoder_family import FAMILIES
from .loaded_model import LoadedModel
from .plain_config import PlainConfig
from .rotary_table import Rotary, RotaryTable
from .weight_check import StoredWeight, check_shapes, contradiction, llama_weights, token_ids

__all__ = ["DTYPES", "load_directly"]

DTYPES = ("float32", "bfloat16", "float16")
"""Data types that weights can be computed in."""


def load_directly(
    folder: Path,
    name: str,
    config: PlainConfig,
    stored: Mapping[str, StoredWeight],
    dtype: str,
    max_model_len: int | None,
) -> LoadedModel | None:
    """Load a decoder onto the CPU.

    Args:
        folder: A folder with config.json and model.safetensors.
        name: Name of the model in errors.
        config: Its configuration.
        stored: Content of the file of weights.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        max_model_len: Longest request asked for (tokens); None: the model's.

    Returns:
        None if the file has weights that such a model has not: transformers knows better.

    Raises:
        ModelError: The file cannot be read, weights are missing, or one contradicts the
            configuration.
    """
    if not _is_as_said(config, stored, name, folder):
        return None
    weights = _weights(folder, name, dtype, config)
    longest = max_model_len or config.max_position_embeddings
    kind = next(iter(weights.values())).dtype
    products = Counter(
        (weight.shape[0], weight.shape[1])
        for key, weight in weights.items()
        if weight.dim() == 2 and "embed" not in key
    )
    num_parameters = sum({id(w): w.numel() for w in weights.values()}.values())
    with torch.inference_mode():
        rotary = RotaryTable(_frequencies(config, kind), longest, config.head_dim)
        scores = [Scores(config.head_dim**-0.5, None)] * config.num_hidden_layers
        builder = DecoderBuilder(weights, config, FAMILIES["llama"], scores, lambda _: rotary)
        decoder = builder.build()
    return LoadedModel(
        model=decoder,
        spec=_spec(config, kind),
        device=torch.device("cpu"),
        vocab_size=config.vocab_size,
        max_model_len=longest,
        eos_token_ids=_eos_token_ids(folder, name, config),
        num_parameters=num_parameters,
        products=products,
    )


def _is_as_said(
    config: PlainConfig, stored: Mapping[str, StoredWeight], name: str, folder: Path
) -> bool:
    """Compare a file's weights with a configuration; False if it has others besides."""
    dims = llama_weights(config)
    if "lm_head.weight" in stored or not config.tie_word_embeddings:
        dims["lm_head.weight"] = dims["model.embed_tokens.weight"]
    present = [key for key in stored if "rotary_emb" not in key]
    missing = sorted(dims.keys() - present)
    if missing:
        raise ModelError(
            f"model {name}: {len(missing)} weights are missing in {folder}, "
            f"the first is {missing[0]}"
        )
    for key, keys in dims.items():
        problem = contradiction(key, stored[key].shape, keys, config, stored[key].file)
        if problem is not None:
            raise ModelError(f"model {name}: {problem}")
    check_shapes(stored, {key: stored[key].shape for key in dims}, name)
    return len(present) == len(dims)


def _weights(folder: Path, name: str, dtype: str, config: PlainConfig) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(folder / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise ModelError(f"model {name} cannot be loaded: {error}") from error
    if dtype == "auto":
        said = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
        dtype = said or str(next(iter(weights.values())).dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise ModelError(
            f"model {name}: {folder} says dtype {dtype!r}; set model.dtype to one of "
            f"{', '.join(DTYPES)}"
        )
    weights = {
        key: weight.to(getattr(torch, dtype))
        for key, weight in weights.items()
        if "rotary_emb" not in key
    }
    embeddings = weights["model.embed_tokens.weight"]
    if config.tie_word_embeddings:  # a head in the file that differs was trained: it stays
        head = weights.get("lm_head.weight", embeddings)
        weights["lm_head.weight"] = embeddings if torch.equal(head, embeddings) else head
    return weights


def _frequencies(config: PlainConfig, dtype: torch.dtype) -> Callable[[torch.Tensor], Rotary]:
    """Cosines and sines by position (Su et al. 2021, section 3.2.2), as transformers has them."""
    size = config.head_dim
    exponents = torch.arange(0, size, 2, dtype=torch.int64).float() / size
    inverse = 1.0 / config.rope_theta**exponents

    def compute(positions: torch.Tensor) -> Rotary:
        angles = positions[..., None].float() * inverse
        both = torch.cat((angles, angles), -1)
        return both.cos().to(dtype), both.sin().to(dtype)

    return compute


def _spec(config: PlainConfig, dtype: torch.dtype) -> AttentionSpec:
    return AttentionSpec(
        num_layers=config.num_hidden_layers,
        num_query_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_size=config.head_dim,
        dtype=str(dtype).removeprefix("torch."),
        device="cpu",
        block_size=0,
        sliding_windows=(None,) * config.num_hidden_layers,
    )


def _eos_token_ids(folder: Path, name: str, config: PlainConfig) -> tuple[int, ...]:
    """End-of-sequence tokens: those for generation, else the configuration's."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return token_ids(config.eos_token_id, name, folder / "config.json")
    try:
        value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"model {name}: {path} is no table of options: {error}") from error
    return token_ids(config.eos_token_id if value is None else value, name, path)
