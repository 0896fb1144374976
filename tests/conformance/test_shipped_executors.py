"""The executor ``torch``, with a tiny random model."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchwright.assembly import Assembly
from batchwright.config import Config
from batchwright.testing.conformance import ExecutorConformance
from batchwright.testing.executor import ScriptedExecutor
from batchwright_engine.executor.torch_executor import TorchExecutor
from batchwright_lab.simulation.simulated import Simulated


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        # Untrained weights make every next token alike; larger ones do not.
        parameter.data.mul_(3.0 if parameter.dim() > 1 else 1.0)
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    return folder


class TestTorch(ExecutorConformance):
    component = TorchExecutor
    options = {"device": "cpu", "threads": 2}
    attention = ("torch",)

    @pytest.fixture(autouse=True)
    def _model(self, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "model", str(tiny_llama))


class TestSimulated(ExecutorConformance):
    component = Simulated
    model = "none"

    def build(self) -> Simulated:
        """In a simulation it is given an estimator."""
        executor = super().build()
        limits = executor.ctx.sizes
        config = Config.from_dict({})
        assembly = Assembly(config, plugins=self.plugins())
        executor.ctx.parts["estimator"] = assembly.make(config.once("estimator"), limits)
        return executor


class TestScripted(ExecutorConformance):
    component = ScriptedExecutor
    model = "scripted"
