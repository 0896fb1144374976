"""Decoders taken apart: they answer what their modules do, and others are left whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from batchwright_engine.compiled import products
from batchwright_engine.executor import compiled_linear, direct_loading, linear, model_loader
from batchwright_engine.executor.decoder import Decoder
from batchwright_engine.executor.decoder_family import FAMILIES
from batchwright_engine.executor.decoder_proof import relative_difference
from batchwright_engine.executor.elementwise import rotate
from batchwright_engine.executor.language_model import TransformersModel
from batchwright_engine.executor.linear import make_linear
from batchwright_engine.executor.loaded_model import LoadedModel
from batchwright_engine.executor.plain_config import read_plain_config
from batchwright_engine.executor.rotary_table import RotaryTable
from batchwright_engine.executor.weight_check import stored_weights

CPU = torch.device("cpu")
CHANGES: dict[str, dict[str, Any]] = {
    "granite": {"logits_scaling": 3.0, "residual_multiplier": 0.5, "embedding_multiplier": 2.0},
    "gemma2": {"sliding_window": 9},
    "phi3": {"partial_rotary_factor": 0.5},
    "qwen2": {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    "smollm3": {"no_rope_layers": [1, 0, 1]},
}


def load(folder: Path, dtype: str = "float32") -> LoadedModel:
    return model_loader.load_model(folder, "tiny", dtype, None, CPU)


def by_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> LoadedModel:
    """The same model, read and computed by its own modules."""
    monkeypatch.setattr(model_loader, "read_plain_config", lambda folder: None)
    monkeypatch.setattr(model_loader, "build_decoder", lambda *arguments: None)
    loaded = load(folder)
    monkeypatch.undo()
    assert isinstance(loaded.model, TransformersModel)
    return loaded


@pytest.mark.parametrize("kind", FAMILIES)
def test_families_answer_as_their_modules_do(
    kind: str, tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every family is taken apart, and its logits are those of transformers."""
    folder = tiny_model(kind, **CHANGES.get(kind, {}))
    loaded, reference = load(folder), by_transformers(folder, monkeypatch)
    assert isinstance(loaded.model, Decoder)
    assert loaded.spec == reference.spec
    assert loaded.eos_token_ids == reference.eos_token_ids
    assert loaded.num_parameters == reference.num_parameters
    assert loaded.products == reference.products
    windows = loaded.spec.sliding_windows
    difference = relative_difference(loaded.model, reference.model, windows, loaded.vocab_size)
    assert difference < 1e-5


@pytest.mark.parametrize("kind", ["llama", "gemma2", "qwen3", "olmo2"])
def test_families_in_bfloat16_are_near(
    kind: str, tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounded weights and sums, and nothing worse."""
    folder = tiny_model(kind, **CHANGES.get(kind, {}))
    loaded, reference = load(folder, "bfloat16"), by_transformers(folder, monkeypatch)
    assert isinstance(loaded.model, Decoder)
    windows = loaded.spec.sliding_windows
    difference = relative_difference(loaded.model, reference.model, windows, loaded.vocab_size)
    assert difference < 0.1


@pytest.mark.parametrize("kind", ["gpt2", "qwen3_moe", "gpt_neox"])
def test_other_families_keep_their_modules(kind: str, tiny_model: Callable[..., Path]) -> None:
    """Unknown families are computed by transformers."""
    assert isinstance(load(tiny_model(kind)).model, TransformersModel)


def test_a_family_that_answers_otherwise_keeps_its_modules(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release of transformers may change a model: the proof at load finds out."""
    from transformers.models.qwen2.modeling_qwen2 import Qwen2MLP

    forward = Qwen2MLP.forward
    monkeypatch.setattr(Qwen2MLP, "forward", lambda self, x: forward(self, x) * 1.1)
    assert isinstance(load(tiny_model("qwen2")).model, TransformersModel)


def test_an_unknown_weight_keeps_the_modules(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer with more than its family has is another family's."""
    read = model_loader._weights

    def extended(*arguments: Any) -> Any:
        model = read(*arguments)
        model.model.layers[1].register_buffer("bonus", torch.zeros(1))
        return model

    monkeypatch.setattr(model_loader, "_weights", extended)
    assert isinstance(load(tiny_model("qwen2")).model, TransformersModel)


@pytest.mark.parametrize(
    ("change", "is_plain"),
    [
        ({}, True),
        ({"attention_dropout": 0.1}, True),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1.0}}, False),
        ({"rope_parameters": {"rope_type": "default", "factor": 2.0}}, False),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, False),
        ({"model_type": "mistral"}, False),
        ({"hidden_act": "gelu"}, False),
        ({"quantization_config": {"bits": 4}}, False),
        ({"hidden_size": None}, False),
    ],
)
def test_only_plain_configurations_are_read_directly(
    change: dict[str, Any], is_plain: bool, tiny_model: Callable[..., Path], tmp_path: Path
) -> None:
    """Whatever is said beside the usual is for transformers to understand."""
    import json

    values = json.loads((tiny_model("llama") / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, **change}))
    (tmp_path / "model.safetensors").touch()
    assert (read_plain_config(tmp_path) is not None) == is_plain


def test_a_folder_without_one_file_of_weights_is_not_read_directly(tmp_path: Path) -> None:
    """Neither an index of several, nor nothing at all."""
    assert read_plain_config(tmp_path) is None
    (tmp_path / "config.json").write_text("{")
    assert read_plain_config(tmp_path) is None


def test_unknown_weights_in_the_file_are_left_to_transformers(
    tiny_model: Callable[..., Path], tmp_path: Path
) -> None:
    """A file with more than a Llama has is not answered with half of it."""
    from safetensors.torch import load_file, save_file

    folder = tiny_model("llama")
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.0.self_attn.q_norm.weight"] = torch.ones(8)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    config = read_plain_config(tmp_path)
    assert config is not None
    stored = stored_weights(tmp_path, "tiny")
    assert direct_loading.load_directly(tmp_path, "tiny", config, stored, "auto", None) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(12, 20), (300, 256)])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("reason", [None, "numba cannot be imported"])
def test_linear_equals_torch(
    dtype: torch.dtype,
    shape: tuple[int, int],
    has_bias: bool,
    reason: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By whatever computes it, laid out anew or not, and with a sum on top."""
    monkeypatch.setattr(linear, "problem", lambda: reason)
    torch.manual_seed(1)
    weight = torch.randn(shape).to(dtype)
    bias = torch.randn(shape[0]).to(dtype) if has_bias else None
    product = make_linear(weight, bias)
    for num_rows in (1, 7, 64):
        x = torch.randn(num_rows, shape[1]).to(dtype)
        residual = torch.randn(num_rows, shape[0]).to(dtype)
        expected = x.double() @ weight.double().T + (0 if bias is None else bias.double())
        size = expected.abs().max().item()
        tolerance = size * (1e-6 if dtype == torch.float32 else 1e-2)
        torch.testing.assert_close(product(x).double(), expected, atol=tolerance, rtol=0)
        total = product.added_to(residual, x).double()
        torch.testing.assert_close(total, expected + residual.double(), atol=tolerance, rtol=0)


def test_rotary_factors_are_the_same_with_and_without_a_table() -> None:
    """A context too long for a table has its factors computed every step."""

    def compute(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = positions[..., None].float() * torch.tensor([1.0, 0.1])
        both = torch.cat((angles, angles), -1)
        return both.cos(), both.sin()

    short, long = RotaryTable(compute, 64, 6), RotaryTable(compute, 1 << 26, 6)
    positions = torch.tensor([0, 5, 63, 5])
    for one, other in zip(short.lookup(positions), long.lookup(positions), strict=True):
        assert torch.equal(one, other)
    heads = torch.arange(48.0).view(4, 2, 6)
    turned = rotate(heads.clone(), *short.lookup(positions), short.rotary_size)
    assert torch.equal(turned[0], heads[0])
    assert torch.equal(turned[:, :, 4:], heads[:, :, 4:])
    cosine, sine = torch.cos(torch.tensor(5.0)), torch.sin(torch.tensor(5.0))
    expected = heads[1, 0, 0] * cosine - heads[1, 0, 2] * sine
    torch.testing.assert_close(turned[1, 0, 0], expected)


@pytest.mark.parametrize(
    ("reason", "shape", "dtype", "expected"),
    [
        (None, (64, 64), torch.float32, "CompiledLinear"),
        (None, (64, 64), torch.bfloat16, "CompiledLinear"),
        (None, (64, 64), torch.float16, "_Plain"),
        ("numba cannot be imported", (64, 64), torch.float32, "_Plain"),
        ("numba cannot be imported", (256, 256), torch.float32, "_Packed"),
        ("numba cannot be imported", (64, 64), torch.bfloat16, "_Packed"),
    ],
)
def test_products_are_computed_by_what_serves_them(
    reason: str | None,
    shape: tuple[int, int],
    dtype: torch.dtype,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our own kernel where the CPU has what it takes, else oneDNN, else torch."""
    monkeypatch.setattr(linear, "problem", lambda: reason)
    monkeypatch.setattr(products, "has", lambda feature: feature != "amx-bf16")
    monkeypatch.setattr(compiled_linear, "multiply_work", lambda _: None)
    assert type(make_linear(torch.ones(shape, dtype=dtype))).__name__ == expected
