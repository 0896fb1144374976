"""Loading: which models are refused and why, what is found out of the others."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchwright.exceptions import ExecutorError, ModelError
from batchwright.messages import CachedRequestData, SchedulerOutput
from batchwright.protocols.attention import AttentionSpec
from batchwright.protocols.model import ModelInfo, ModelSettings
from batchwright_engine.attention.torch_paged import TorchAttention, TorchAttentionOptions
from batchwright_engine.executor.cpu_threads import apart, physical_cores, quiet_openmp
from batchwright_engine.executor.torch_executor import TorchExecutor, TorchExecutorOptions


class Picky(TorchAttention):
    """A backend that serves nothing."""

    name = "picky"

    def unsupported(self, spec: AttentionSpec) -> str | None:
        return f"it dislikes {spec.num_layers} layers"


def backend(kind: type[TorchAttention] = TorchAttention) -> TorchAttention:
    return kind(TorchAttentionOptions(), None)  # type: ignore[arg-type]


def load(path: object, **settings: Any) -> ModelInfo:
    executor = TorchExecutor(TorchExecutorOptions(device="cpu", threads=1), None)  # type: ignore[arg-type]
    settings = {"attention": [backend()], "dtype": "float32", **settings}
    return executor.load(ModelSettings(path=str(path), **settings))


def config_only(folder: Path, **config: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "bloom"}, "ALiBi"),
        ({"model_type": "falcon", "alibi": True}, "ALiBi"),
        ({"model_type": "falcon", "alibi": False}, "a falcon model computes attention by classes"),
        ({"model_type": "gpt_neo"}, "a gpt_neo model computes attention by classes of its own"),
        ({"model_type": "recurrent_gemma"}, "recurrent state"),
        ({"model_type": "zamba2"}, "recurrent state"),
        ({"model_type": "mpt"}, "ALiBi"),
        ({"model_type": "mamba"}, "recurrent state"),
        ({"model_type": "jamba"}, "recurrent state"),
        ({"model_type": "t5"}, "encoder"),
        ({"model_type": "qwen3_next"}, "linear_attention"),
        ({"model_type": "unheard-of"}, "configuration cannot be read"),
        ({"model_type": "llama"}, "cannot be loaded"),
    ],
    ids=lambda value: value.get("model_type") if isinstance(value, dict) else None,
)
def test_load_refuses_and_names_model_and_reason(
    config: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """Judged by the configuration, before any weight is read."""
    folder = config_only(tmp_path, **config)
    with pytest.raises(ModelError, match=reason) as caught:
        load(folder)
    assert str(folder) in str(caught.value)


def test_load_refuses_a_path_that_is_no_model(tmp_path: Path) -> None:
    """The choices are named."""
    with pytest.raises(ModelError, match="smollm2-135m"):
        load(tmp_path)


def test_load_refuses_more_positions_than_the_model_has(tiny_model: Callable[..., Path]) -> None:
    """A longer max_model_len is refused, a shorter one taken over."""
    folder = tiny_model("llama")
    with pytest.raises(ModelError, match="256 positions"):
        load(folder, max_model_len=257)
    assert load(folder, max_model_len=99).max_model_len == 99


def test_load_refuses_dynamic_frequencies_where_they_would_change(tmp_path: Path) -> None:
    """Up to the model's own positions they are those of any other model."""
    rope = {"rope_type": "dynamic", "factor": 2.0}
    folder = config_only(tmp_path, model_type="llama", rope_scaling=rope)
    with pytest.raises(ModelError, match=r"longest request.* at most 2048"):
        load(folder, max_model_len=2049)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(folder, max_model_len=2048)


def test_load_refuses_an_unknown_dtype(tiny_model: Callable[..., Path]) -> None:
    """The choices are named."""
    with pytest.raises(ModelError, match="bfloat16"):
        load(tiny_model("llama"), dtype="int8")


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_load_refuses_missing_weights(
    kind: str, tiny_model: Callable[..., Path], tmp_path: Path
) -> None:
    """Weights that would be random are an error, for any reader of the file."""
    from safetensors.torch import load_file, save_file

    folder = tiny_model(kind)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(ModelError, match=r"weights are missing.*layers\.1\.mlp\.up_proj"):
        load(tmp_path)


def test_load_refuses_attention_that_goes_elsewhere(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer that computes its attention by itself is found out by counting."""
    from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention

    forward = Qwen2Attention.forward

    def detour(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        if self.layer_idx == 1:
            return hidden_states, None
        return forward(self, hidden_states, *args, **kwargs)

    monkeypatch.setattr(Qwen2Attention, "forward", detour)
    with pytest.raises(ModelError, match="3 layers called the attention function 2 times"):
        load(tiny_model("qwen2"))


def test_load_refuses_a_model_that_drops_arguments(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the argument the cache of a layer is unknown."""
    from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention

    forward = Qwen2Attention.forward

    def forgetful(self: Any, *args: Any, batchwright: Any = None, **kwargs: Any) -> Any:
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(Qwen2Attention, "forward", forgetful)
    with pytest.raises(ModelError, match="passes no arguments on"):
        load(tiny_model("qwen2"))


def test_load_refuses_bidirectional_attention(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer that looks ahead cannot be served from a cache."""
    from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention

    build = Qwen2Attention.__init__

    def both_ways(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        self.is_causal = False

    monkeypatch.setattr(Qwen2Attention, "__init__", both_ways)
    with pytest.raises(ModelError, match="bidirectional"):
        load(tiny_model("qwen2"))


def test_load_refuses_a_window_that_only_the_mask_knows(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No mask is built, so a window must come with the call."""
    from batchwright_engine.executor import attention_bridge

    attend = attention_bridge._attention

    def silent(*args: Any, sliding_window: Any = None, **kwargs: Any) -> Any:
        return attend(*args, **kwargs)

    monkeypatch.setattr(attention_bridge, "_attention", silent)
    with pytest.raises(ModelError, match="sliding window"):
        load(tiny_model("mistral", sliding_window=9))


def test_load_takes_the_first_backend_that_can(tiny_model: Callable[..., Path]) -> None:
    """In order of preference; if none can, each says why."""
    folder = tiny_model("llama")
    assert load(folder, attention=[backend(Picky), backend()]).attention == "torch"
    with pytest.raises(ModelError, match="picky: it dislikes 3 layers"):
        load(folder, attention=[backend(Picky)])
    with pytest.raises(ModelError, match="none was given"):
        load(folder, attention=[])


def test_load_reports_what_it_found(tiny_model: Callable[..., Path]) -> None:
    """Sizes, ends, windows."""
    info = load(tiny_model("llama"))
    assert info.vocab_size == 97
    assert info.max_model_len == 256
    assert info.eos_token_ids == (1,)
    assert info.kv_bytes_per_token == 2 * 3 * 2 * 8 * 4
    assert info.sliding_window is None
    assert info.tokenizer is None
    assert info.path is not None
    assert any("float32 on cpu, 1 thread" in note for note in info.notes)
    assert load(tiny_model("mistral", sliding_window=9)).sliding_window == 9
    mixed = tiny_model("gemma2", sliding_window=9, query_pre_attn_scalar=8)
    assert load(mixed).sliding_window is None
    assert load(tiny_model("llama"), dtype="bfloat16").kv_bytes_per_token == 2 * 3 * 2 * 8 * 2


def test_cuda_is_refused_where_there_is_none(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for by name, it is an error; by auto, the CPU is taken."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    settings = ModelSettings(path=str(tiny_model("llama")), attention=[backend()])
    options = TorchExecutorOptions(device="cuda")
    with pytest.raises(ModelError, match=r"executor\.torch\.device"):
        TorchExecutor(options, None).load(settings)  # type: ignore[arg-type]
    options = TorchExecutorOptions(threads=2)
    info = TorchExecutor(options, None).load(settings)  # type: ignore[arg-type]
    assert any("cpu, 2 threads" in note for note in info.notes)


def test_calls_out_of_order_are_refused(tiny_model: Callable[..., Path]) -> None:
    """No cache before a model, no plan before a cache, nothing after close."""
    executor = TorchExecutor(TorchExecutorOptions(device="cpu", threads=1), None)  # type: ignore[arg-type]
    plan = SchedulerOutput(
        step_id=0,
        scheduled_new_reqs=[],
        scheduled_cached_reqs=CachedRequestData(),
        num_scheduled_tokens={},
        total_num_scheduled_tokens=0,
    )
    with pytest.raises(ExecutorError, match="before a model"):
        executor.allocate_kv(4, 4)
    executor.load(ModelSettings(path=str(tiny_model("llama")), attention=[backend()]))
    with pytest.raises(ExecutorError, match="before a KV cache"):
        executor.run(plan)
    executor.restart()
    executor.allocate_kv(4, 4)
    assert executor.run(plan).req_ids == []
    plan.swap_ins["a"] = [(0, 1)]
    with pytest.raises(ExecutorError, match="swap"):
        executor.run(plan)
    executor.close()
    with pytest.raises(ExecutorError, match="before a KV cache"):
        executor.run(plan)


def test_options_are_checked_and_documented() -> None:
    """Every option says what it is for and in which unit."""
    from attrs import fields

    for options in (TorchExecutorOptions, TorchAttentionOptions):
        for option in fields(options):
            assert option.metadata["help"]
            assert option.metadata["unit"]
    with pytest.raises(ValueError, match="device"):
        TorchExecutorOptions(device="tpu")
    with pytest.raises(ValueError, match="threads"):
        TorchExecutorOptions(threads=0)


def test_threads_are_at_least_one_and_openmp_waits_quietly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Quotas of a container count; what the user set stays."""
    import os

    from batchwright_engine.executor import cpu_threads

    assert 1 <= physical_cores() <= (os.cpu_count() or 1)
    quota = tmp_path / "cpu.max"
    quota.write_text("50000 100000\n")
    monkeypatch.setattr(cpu_threads, "_QUOTA", quota)
    assert physical_cores() == 1
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.delenv("KMP_BLOCKTIME", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    assert not quiet_openmp()  # torch is there already
    assert os.environ["OMP_WAIT_POLICY"] == "active"
    assert os.environ["KMP_BLOCKTIME"] == "0"
    assert os.environ["GOMP_SPINCOUNT"] == "1000"


def test_listing_the_class_imports_neither_torch_nor_transformers() -> None:
    """`batchwright plugins` reads names and options only."""
    code = (
        "import sys\n"
        "from batchwright_engine.executor import batchwright_register_executor as hook\n"
        "heavy = {'torch', 'transformers', 'numpy'} & {*sys.modules}\n"
        "print(*sorted(c.name for c in hook()), heavy)"
    )
    path = {"PYTHONPATH": ":".join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["torch", "set()"]


def test_apart_hands_on_what_came_of_it() -> None:
    """A result or an error, from a thread that has ended."""

    def fail() -> None:
        raise KeyError("weights")

    thread = apart(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive()
    with pytest.raises(KeyError, match="weights"):
        apart(fail)
