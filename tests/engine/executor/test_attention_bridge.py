"""Arguments of a module of transformers arrive as one call."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attrs.exceptions import FrozenInstanceError

from batchwright_engine.executor.attention_bridge import NAME, ModuleCall, _attention


class Recorder:
    """Keeps the last call, and answers with its queries."""

    def forward(self, call: ModuleCall) -> torch.Tensor:
        self.call = call
        return call.query


def attend(**said: Any) -> tuple[ModuleCall, torch.Tensor]:
    """The call of layer 3 with 5 tokens, and what came back from the bridge."""
    module, recorder = torch.nn.Identity(), Recorder()
    module.layer_idx = 3
    query, key = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 5, 16)
    output, weights = _attention(module, query, key, key + 1, None, **{NAME: recorder}, **said)
    assert weights is None
    assert recorder.call.module is module
    assert torch.equal(recorder.call.query, query[0].transpose(0, 1))
    assert torch.equal(recorder.call.key, key[0].transpose(0, 1))
    assert torch.equal(recorder.call.value, key[0].transpose(0, 1) + 1)
    return recorder.call, output


def test_attention_leads_a_call_with_all_that_was_said() -> None:
    """Arguments with other names in backends are separated from unknown ones."""
    sinks = torch.zeros(4)
    call, output = attend(scaling=0.5, sliding_window=7, softcap=5.0, s_aux=sinks, is_causal=True)
    assert (call.layer, call.scale, call.window, call.softcap) == (3, 0.5, 7, 5.0)
    assert call.sinks is sinks
    assert call.extra == {"is_causal": True}
    assert output.shape == (1, 5, 4, 16)


def test_attention_of_a_module_that_says_nothing() -> None:
    """The usual scale, and nothing special."""
    call, _ = attend()
    assert (call.scale, call.window, call.softcap, call.sinks) == (0.25, None, None, None)
    assert call.extra == {}


def test_a_backend_cannot_change_its_call() -> None:
    call, _ = attend()
    with pytest.raises(FrozenInstanceError):
        call.scale = 1.0  # type: ignore[misc]
