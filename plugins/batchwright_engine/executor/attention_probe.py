"""Proves that a model's attention goes where it is led, and learns its shape."""

from __future__ import annotations

from typing import Any

import torch
from attrs import define, field

from batchwright.exceptions import ModelError
from batchwright.protocols.attention import AttentionSpec

from .attention_bridge import NAME, ModuleCall

__all__ = ["probe"]

_NUM_TOKENS = 3
_NUM_ROWS = 2
_FOREIGN = ("position_bias", "chunk_size", "attention_chunk_size", "block_table")


@define(eq=False)
class _Record:
    """Compute nothing, and note the requirements of each layer."""

    calls: list[ModuleCall] = field(factory=list)

    def forward(self, call: ModuleCall) -> torch.Tensor:
        self.calls.append(call)
        return torch.zeros_like(call.query)

    @property
    def shapes(self) -> list[tuple[int, int, int, int]]:
        """By call: query heads, key heads, elements of a key's head and of a value's."""
        return [(c.query.shape[1], *c.key.shape[1:], c.value.shape[2]) for c in self.calls]


def probe(model: Any, name: str, device: torch.device) -> tuple[AttentionSpec, list[ModuleCall]]:
    """Run a few tokens through a model, and read off what its attention is like.

    Args:
        model: A causal language model of transformers, set up for the bridge.
        name: Its name in errors.
        device: Its device.

    Returns:
        Its requirements of a backend (the block size is still 0), and of each layer's
        attention, in the order of layers.

    Raises:
        ModelError: Its attention is not called exactly once a layer, or asks for
            something that backends do not offer.
    """
    record = _Record()
    tokens = torch.zeros((1, _NUM_TOKENS), dtype=torch.int64, device=device)
    rows = torch.arange(_NUM_ROWS, device=device)
    try:
        with torch.inference_mode():
            logits = model(
                input_ids=tokens,
                position_ids=torch.arange(_NUM_TOKENS, device=device).unsqueeze(0),
                use_cache=False,
                logits_to_keep=rows,
                **{NAME: record},
            ).logits
    except Exception as error:
        raise ModelError(f"model {name} cannot be served: {error}") from error
    problem = _problem(model.config.get_text_config(), record)
    if problem is None and logits.shape[:2] != (1, _NUM_ROWS):
        problem = "it does not compute the logits of chosen tokens only"
    if problem is not None:
        raise ModelError(f"model {name} cannot be served: {problem}")
    calls = sorted(record.calls, key=lambda call: call.layer)
    return _spec(record, calls, str(next(model.parameters()).dtype), device), calls


def _problem(text: Any, record: _Record) -> str | None:
    count, layers = len(record.calls), text.num_hidden_layers
    if count != layers or sorted(c.layer for c in record.calls) != list(range(layers)):
        return (
            f"its {layers} layers called the attention function {count} times in a forward "
            "pass instead of once each: some attention does not go through it"
        )
    if len(set(record.shapes)) > 1:
        return "its layers differ in heads or head size"
    heads, kv_heads, key_size, value_size = record.shapes[0]
    if key_size != value_size:
        return f"its keys have {key_size} elements a head and its values {value_size}"
    if heads % kv_heads:
        return f"{heads} query heads cannot share {kv_heads} key heads evenly"
    return _foreign(record) or _windows(text, record)


def _foreign(record: _Record) -> str | None:
    for call in record.calls:
        if getattr(call.module, "is_causal", True) is False or call.extra.get("is_causal") is False:
            return "its attention is bidirectional"
        for key in _FOREIGN:
            if call.extra.get(key) is not None:
                return f"its attention takes {key}, which attention backends lack"
    return None


def _windows(text: Any, record: _Record) -> str | None:
    """A window that only the mask knows of would be lost, since no mask is built."""
    kinds = getattr(text, "layer_types", None) or ()
    for call in record.calls:
        sliding = kinds[call.layer] == "sliding_attention" if kinds else call.window is not None
        if sliding != (call.window is not None):
            return f"layer {call.layer} does not tell its sliding window to its attention"
    untold = getattr(text, "sliding_window", None) and record.calls[0].window is None
    if not kinds and untold and getattr(text, "use_sliding_window", True):
        return "its layers do not tell their sliding window to their attention"
    return None


def _spec(
    record: _Record, calls: list[ModuleCall], dtype: str, device: torch.device
) -> AttentionSpec:
    heads, kv_heads, head_size, _ = record.shapes[0]
    return AttentionSpec(
        num_layers=len(calls),
        num_query_heads=heads,
        num_kv_heads=kv_heads,
        head_size=head_size,
        dtype=dtype.removeprefix("torch."),
        device=device.type,
        block_size=0,
        sliding_windows=tuple(call.window for call in calls),
        softcap=any(call.softcap is not None for call in calls),
        sinks=any(call.sinks is not None for call in calls),
    )
