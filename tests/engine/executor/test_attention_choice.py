"""Which attention backend is chosen, before and while a model is loaded, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from batchwright import ModelError
from batchwright.protocols.attention import AttentionSpec
from batchwright.protocols.model import ModelInfo, ModelSettings
from batchwright.testing.attention import Case
from batchwright_engine.attention.torch_paged import TorchAttention, TorchAttentionOptions
from batchwright_engine.attention.triton_paged import TritonAttention, TritonAttentionOptions
from batchwright_engine.executor import embedded_model
from batchwright_engine.executor.attention_choice import choose_attention
from batchwright_engine.executor.torch_executor import TorchExecutor, TorchExecutorOptions


class Choosy(TorchAttention):
    """Serves blocks of one size."""

    name = "choosy"

    def unsupported(self, spec: AttentionSpec) -> str | None:
        return None if spec.block_size == 32 else f"it dislikes blocks of {spec.block_size}"


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def backends() -> list[Any]:
    return [
        TritonAttention(TritonAttentionOptions(), None),  # type: ignore[arg-type]
        Choosy(TorchAttentionOptions(), None),  # type: ignore[arg-type]
        TorchAttention(TorchAttentionOptions(), None),  # type: ignore[arg-type]
    ]


def settings(path: object, **fields: Any) -> ModelSettings:
    given = {"attention": backends(), "dtype": "float32", "block_size": 16, **fields}
    return ModelSettings(path=str(path), **given)


def executor(**options: Any) -> TorchExecutor:
    chosen = TorchExecutorOptions(**{"device": "cpu", "threads": 1, **options})
    return TorchExecutor(chosen, None)  # type: ignore[arg-type]


def test_choice_keeps_every_reason() -> None:
    """Of those before the chosen one and behind it."""
    spec = Case(requests=[], block_size=16).spec
    choice = choose_attention(backends(), spec, "m")
    assert choice.backend.name == "torch"
    assert choice.others == (
        ("triton", "it computes on cuda, not on cpu"),
        ("choosy", "it dislikes blocks of 16"),
    )
    choice = choose_attention(backends(), evolve(spec, block_size=32), "m")
    assert choice.backend.name == "choosy"
    assert choice.others[1] == ("torch", "choosy is preferred")


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "no attention backend can serve model m: none was given"),
        (
            1,
            "model m cannot be served with the attention backend triton: it computes on cuda, "
            'not on cpu; with attention.backend = "auto" one is chosen that can',
        ),
        (
            2,
            "no attention backend can serve model m: triton: it computes on cuda, not on cpu; "
            "choosy: it dislikes blocks of 16",
        ),
    ],
)
def test_choice_that_is_impossible_says_why(count: int, expected: str) -> None:
    spec = Case(requests=[], block_size=16).spec
    with pytest.raises(ModelError) as caught:
        choose_attention(backends()[:count], spec, "m")
    assert str(caught.value) == expected


@pytest.mark.parametrize("block_size", [16, 32])
@pytest.mark.parametrize("kind", ["llama", "gemma2", "mistral", "gpt_oss"])
def test_inspect_finds_what_load_does(
    kind: str, block_size: int, tiny_model: Callable[..., Path]
) -> None:
    """From the configuration alone; the block size counts."""
    folder = tiny_model(kind)
    found = executor().inspect(settings(folder, block_size=block_size))
    loaded = executor().load(settings(folder, block_size=block_size))
    if kind == "gpt_oss":  # its experts are chosen by numbers, which only weights give
        assert found is None
        return
    assert found is not None
    assert facts(found) == facts(loaded)
    assert found.attention == {16: "torch", 32: "choosy"}[block_size]


def facts(info: ModelInfo) -> tuple[object, ...]:
    return info.attention, info.attention_others, info.kv_bytes_per_token, info.sliding_window


def test_inspect_reads_the_dtype_that_a_model_was_stored_in(
    tiny_model: Callable[..., Path],
) -> None:
    folder = tiny_model("llama")
    found = executor().inspect(settings(folder, dtype="auto"))
    loaded = executor().load(settings(folder, dtype="auto"))
    assert found is not None
    assert facts(found) == facts(loaded)


def test_inspect_reads_no_weights(tiny_model: Callable[..., Path], tmp_path: Path) -> None:
    """They need not even be there."""
    config = (tiny_model("llama") / "config.json").read_text()
    (tmp_path / "config.json").write_text(config)
    found = executor().inspect(settings(tmp_path))
    assert found is not None
    assert found.attention == "torch"


def test_inspect_refuses_what_load_would(tiny_model: Callable[..., Path]) -> None:
    """A backend that cannot serve the model, a device that is not there."""
    folder = tiny_model("llama")
    with pytest.raises(ModelError, match="backend triton: it computes on cuda, not on cpu"):
        executor().inspect(settings(folder, attention=backends()[:1]))


def test_inspect_refuses_a_model_that_cannot_be_served(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from batchwright_engine.executor import attention_probe

    monkeypatch.setattr(attention_probe, "_problem", lambda text, record: "it is odd")
    with pytest.raises(ModelError, match="cannot be served: it is odd"):
        executor().inspect(settings(tiny_model("llama")))


@pytest.mark.parametrize("content", ["{", '{"model_type": "nobody-knows"}'])
def test_inspect_of_a_strange_model_knows_nothing(content: str, tmp_path: Path) -> None:
    """``load`` is the one to complain."""
    (tmp_path / "config.json").write_text(content)
    assert executor().inspect(settings(tmp_path)) is None


def test_inspect_without_a_folder_or_a_package_knows_nothing(
    tiny_model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An embedded model that was never converted is not converted for this."""
    monkeypatch.setenv("BATCHWRIGHT_CACHE", str(tmp_path))
    assert executor().inspect(settings(embedded_model.NAMES[0])) is None
    assert list(tmp_path.iterdir()) == []
    assert executor().inspect(settings(tmp_path / "gone")) is None
    from batchwright_engine.executor import torch_executor

    monkeypatch.setattr(torch_executor, "find_spec", lambda name: None)
    assert executor().inspect(settings(tiny_model("llama"))) is None
