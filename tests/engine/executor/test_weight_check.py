"""Checkpoints that contradict their config.json, read directly and by transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from batchwright.exceptions import ModelError
from batchwright_engine.executor import model_loader
from batchwright_engine.executor.decoder_proof import relative_difference
from batchwright_engine.executor.loaded_model import LoadedModel

KINDS = pytest.mark.parametrize("kind", ["llama", "qwen2"])  # the direct path, and transformers'


def load(folder: Path, dtype: str = "float32") -> LoadedModel:
    return model_loader.load_model(folder, "tiny", dtype, None, torch.device("cpu"))


@pytest.fixture
def changed(tiny_model: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Copies a small model, with other weights (None: without) and another config.json."""

    def change(kind: str, weights: dict[str, Any] | None = None, **config: Any) -> Path:
        folder = tiny_model(kind, tie_word_embeddings=True)
        held = {**load_file(folder / "model.safetensors"), **(weights or {})}
        held = {key: value for key, value in held.items() if value is not None}
        save_file(held, tmp_path / "model.safetensors", metadata={"format": "pt"})
        values = {**json.loads((folder / "config.json").read_text()), **config}
        (tmp_path / "config.json").write_text(json.dumps(values))
        return tmp_path

    return change


def test_a_head_in_the_file_wins_over_tied_embeddings_on_both_paths(
    changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder, one answer: that of the head which was trained."""
    folder = changed("llama", {"lm_head.weight": torch.randn(97, 48)})
    directly = load(folder)
    monkeypatch.setattr(model_loader, "read_plain_config", lambda folder: None)
    others = load(folder)
    difference = relative_difference(directly.model, others.model, [None] * 3, 97)
    tied = load(changed("llama")).model
    assert difference < 1e-5
    assert relative_difference(directly.model, tied, [None] * 3, 97) > 0.5
    assert directly.num_parameters == others.num_parameters


def test_a_head_that_repeats_the_embeddings_is_kept_once(changed: Callable[..., Path]) -> None:
    """Tied weights that are written twice take the memory of one."""
    folder = changed("llama")
    before = load(folder).num_parameters
    weights = load_file(folder / "model.safetensors")
    again = changed("llama", {"lm_head.weight": weights["model.embed_tokens.weight"].clone()})
    assert load(again).num_parameters == before


@KINDS
@pytest.mark.parametrize(
    ("config", "weight", "stored", "wanted"),
    [
        ({"num_key_value_heads": 3}, "self_attn.k_proj", "16", "24"),
        ({"vocab_size": 120}, "embed_tokens", "97", "120"),
        ({"vocab_size": 90}, "embed_tokens", "97", "90"),
        ({"intermediate_size": 65}, "mlp.", "64", "65"),
        ({"num_attention_heads": 4}, "self_attn.", "48", "32"),
    ],
    ids=str,
)
def test_a_shape_that_contradicts_the_configuration_is_refused(
    kind: str,
    config: dict[str, Any],
    weight: str,
    stored: str,
    wanted: str,
    changed: Callable[..., Path],
) -> None:
    """Weight, file and both numbers are named, before a weight is used."""
    folder = changed(kind, **config)
    with pytest.raises(ModelError) as caught:
        load(folder)
    message = str(caught.value)
    for part in (weight, stored, wanted, str(folder / "model.safetensors"), "config.json"):
        assert part in message


def test_the_options_behind_a_shape_are_named(changed: Callable[..., Path]) -> None:
    """The whole message of the direct path."""
    folder = changed("llama", head_dim=16)
    file = folder / "model.safetensors"
    with pytest.raises(ModelError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"model tiny: model.layers.0.self_attn.q_proj.weight is [48, 48] in {file}, but "
        "config.json makes it [96, 48] (num_attention_heads = 6, head_dim = 16)"
    )


@KINDS
@pytest.mark.parametrize("layers", [2, 10**9])
def test_another_number_of_layers_is_refused(
    kind: str, layers: int, changed: Callable[..., Path]
) -> None:
    """No layer of a file is left out in silence, and none is made up."""
    with pytest.raises(ModelError, match=f"num_hidden_layers = {layers}"):
        load(changed(kind, num_hidden_layers=layers, layer_types=None))


@KINDS
@pytest.mark.parametrize(
    "name",
    [
        "model.layers.1.self_attn.o_proj.bias",
        "model.layers.1.self_attn.q_norm.weight",
        "model.norm.bias",
    ],
)
def test_a_weight_without_a_place_is_refused(
    kind: str, name: str, changed: Callable[..., Path]
) -> None:
    """A weight that the configuration denies would be lost."""
    with pytest.raises(ModelError, match=f"it has {name}, which such a model has not"):
        load(changed(kind, {name: torch.zeros(48)}))


@KINDS
def test_weights_that_no_layer_reads_are_left_alone(
    kind: str, changed: Callable[..., Path]
) -> None:
    """Another part of a larger model, and tables of positions that old files hold."""
    tables = "model.layers.1.self_attn.rotary_emb.inv_freq"
    extra = {"vision_tower.layers.0.weight": torch.ones(2), tables: torch.ones(4)}
    assert load(changed(kind, extra)).vocab_size == 97


@KINDS
def test_whole_numbers_are_no_weights(kind: str, changed: Callable[..., Path]) -> None:
    """Quantized numbers without their scales would be computed with as they are."""
    name = "model.layers.2.mlp.up_proj.weight"
    folder = changed(kind, {name: torch.ones(64, 48, dtype=torch.int8)})
    with pytest.raises(ModelError, match=f"{name} is stored as I8 in .*model.safetensors"):
        load(folder)


@KINDS
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("vocab_size", 0),
        ("num_attention_heads", 0),
        ("num_key_value_heads", -2),
        ("head_dim", "8"),
        ("hidden_size", 48.5),
        ("max_position_embeddings", 10**30),
        ("rms_norm_eps", -1),
        ("rope_theta", "much"),
        ("tie_word_embeddings", "false"),
        ("eos_token_id", "</s>"),
    ],
)
def test_a_value_that_no_model_has_is_refused(
    kind: str, option: str, value: Any, changed: Callable[..., Path]
) -> None:
    """The option, its value and the file are named."""
    with pytest.raises(ModelError) as caught:
        load(changed(kind, **{option: value}))
    assert f"{option} = {value!r}" in str(caught.value)
    assert "config.json" in str(caught.value)


@KINDS
def test_truncated_weights_are_refused(kind: str, changed: Callable[..., Path]) -> None:
    """Half a file is no model."""
    file = changed(kind) / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ModelError, match=r"cannot be loaded: .*model\.safetensors"):
        load(file.parent)


@pytest.mark.parametrize("text", ["[1]", "{", '{"eos_token_id": "no"}'])
def test_a_broken_generation_config_is_refused(text: str, changed: Callable[..., Path]) -> None:
    """The file is named, whatever is wrong with it."""
    folder = changed("llama")
    (folder / "generation_config.json").write_text(text)
    with pytest.raises(ModelError, match=r"generation_config\.json"):
        load(folder)


@pytest.mark.parametrize("dtype", ["int8", "float64", 7])
def test_a_configured_type_that_is_not_served_is_refused(
    dtype: Any, changed: Callable[..., Path]
) -> None:
    """With the choices of model.dtype."""
    with pytest.raises(ModelError, match=r"set model\.dtype to one of float32, bfloat16, float16"):
        load(changed("llama", dtype=dtype), "auto")


def test_an_index_without_a_map_is_refused(changed: Callable[..., Path]) -> None:
    """Sharded weights are found by it."""
    folder = changed("qwen2")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(ModelError, match=r"index\.json has no weight_map"):
        load(folder)
