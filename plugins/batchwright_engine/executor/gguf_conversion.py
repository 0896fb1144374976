"""Convert a GGUF file of the llama architecture into a Hugging Face folder.

Run as a program: ``python -m batchwright_engine.executor.gguf_conversion SOURCE
TARGET``; it prints ``done/total`` bytes as it goes. One tensor is in memory at a time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize

from .gguf_tokenizer import write_tokenizer
from .weight_check import config_problem, contradiction, llama_weights

__all__ = ["convert"]

_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_SPECIAL = {
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
    "pad_token_id": "padding_token_id",
}


def convert(source: Path, target: Path, report: Callable[[int, int], None]) -> None:
    """Write configuration, tokenizer and bfloat16 weights.

    Args:
        source: The GGUF file.
        target: An existing folder.
        report: Called with bytes written and bytes in all.

    Raises:
        ValueError: The file is not of the llama architecture, lacks a field or a tensor,
            has a tensor that the conversion does not know, or one that contradicts its
            fields.
    """
    reader = GGUFReader(source)
    fields = _Fields({name: item.contents() for name, item in reader.fields.items()})
    if fields["general.architecture"] != "llama":
        raise ValueError(f"unknown architecture {fields['general.architecture']!r}")
    config = _config(fields, tied=not _has_head(reader))
    _check_tensors(reader, config, source)
    write_tokenizer(fields, target)
    _write_config(config, target)
    _write_weights(reader, fields, target / "model.safetensors", report)


class _Fields(dict[str, Any]):
    """The fields of a file; one that is missing is named as such."""

    def __missing__(self, name: str) -> Any:
        raise ValueError(f"the file has no field {name!r}")


def _has_head(reader: Any) -> bool:
    return any(tensor.name == "output.weight" for tensor in reader.tensors)


def _config(fields: dict[str, Any], *, tied: bool) -> dict[str, Any]:
    """Return the contents of config.json."""
    heads = fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": fields["llama.vocab_size"],
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("llama.attention.head_count_kv", heads),
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": fields["llama.rope.freq_base"],
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        **{key: fields[f"tokenizer.ggml.{field}"] for key, field in _SPECIAL.items()},
    }


def _check_tensors(reader: Any, config: dict[str, Any], source: Path) -> None:
    """Compare the tensors with the fields, before any is converted.

    Raises:
        ValueError: A field holds what no model can have, or a tensor is missing or has
            another shape.
    """
    problem = config_problem(config)
    if problem is not None:
        raise ValueError(f"{source}: {problem}")
    if config["num_hidden_layers"] > len(reader.tensors):
        count = config["num_hidden_layers"]
        raise ValueError(f"{source}: {count} layers, but {len(reader.tensors)} tensors")
    heads = config["num_attention_heads"]
    said = SimpleNamespace(
        **config, head_dim=config["hidden_size"] // heads, attention_bias=False, mlp_bias=False
    )
    dims = llama_weights(said)
    if not said.tie_word_embeddings:
        dims["lm_head.weight"] = dims["model.embed_tokens.weight"]
    shapes = {_name(t.name): [int(n) for n in reversed(t.shape)] for t in reader.tensors}
    odd = sorted(dims.keys() ^ shapes.keys())
    if odd:
        what = "is missing" if odd[0] in dims else f"has no place among {said.num_hidden_layers}"
        raise ValueError(f"{source}: {odd[0]} {what}{'' if odd[0] in dims else ' layers'}")
    for name, shape in shapes.items():
        problem = contradiction(name, shape, dims[name], said, source)
        if problem is not None:
            raise ValueError(problem)


def _write_config(config: dict[str, Any], target: Path) -> None:
    special = {key: config[key] for key in _SPECIAL}
    (target / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (target / "generation_config.json").write_text(json.dumps(special, indent=1), encoding="utf-8")


def _write_weights(
    reader: Any, fields: dict[str, Any], path: Path, report: Callable[[int, int], None]
) -> None:
    """Write a safetensors file: header length, header, then tensor after tensor."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    total = 0
    for tensor in reader.tensors:
        stop = total + 2 * int(tensor.n_elements)
        header[_name(tensor.name)] = {
            "dtype": "BF16",
            "shape": [int(size) for size in reversed(tensor.shape)],
            "data_offsets": [total, stop],
        }
        total = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        done = 0
        for part in _bfloat16_parts(reader, fields):
            file.write(part.data)
            done += part.nbytes
            report(done, total)


def _bfloat16_parts(reader: Any, fields: dict[str, Any]) -> Iterator[np.ndarray]:
    heads = fields["llama.attention.head_count"]
    by_kind = {"attn_q": heads, "attn_k": fields.get("llama.attention.head_count_kv", heads)}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        kind = tensor.name.split(".")[-2]
        if kind in by_kind:
            values = _halves_apart(values, by_kind[kind])
        yield _bfloat16(values)


def _halves_apart(weight: np.ndarray, heads: int) -> np.ndarray:
    """Reorder a head's rows: the first of each rotated pair, then the second.

    GGUF stores the two elements that a rotary embedding turns together next to each
    other; transformers expects the first ones of all pairs, then the second ones.
    """
    pairs = weight.reshape(heads, -1, 2, weight.shape[-1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)


def _bfloat16(values: np.ndarray) -> np.ndarray:
    """Return the upper 16 bits of float32 numbers, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + (odd + np.uint32(0x7FFF))) >> np.uint32(16)).astype(np.uint16)


def _name(name: str) -> str:
    """A tensor's name in transformers.

    Raises:
        ValueError: It has none there.
    """
    parts = name.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in _LAYER_NAMES:
        return f"model.layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{parts[3]}"
    if len(parts) == 2 and parts[0] in _NAMES:
        return f"{_NAMES[parts[0]]}.{parts[1]}"
    raise ValueError(f"unknown tensor {name!r}")


def _print(done: int, total: int) -> None:
    print(f"{done}/{total}", flush=True)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]), _print)
