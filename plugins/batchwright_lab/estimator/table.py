"""A step time that is interpolated in tables of measured operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Estimator
from batchwright.protocols.estimator import StepShape
from batchwright_lab.estimator.operators import read_operators
from batchwright_lab.estimator.profiles import find_profile

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["Table"]


@frozen
class Options:
    """Options of tables."""

    profile: str = option(
        "rtxpro6000-llama3.1-8b",
        "Name of a shipped profile, or folder with dense.csv, attention.csv and per_sequence.csv.",
    )
    num_layers: int | None = option(
        None, "Layers of the model.", ge=1, default_text="the profile's, or model's"
    )
    model: str | None = option(
        None, "Folder or config.json of a Hugging Face model, for its layers and hidden size."
    )
    tensor_parallel: int = option(1, "Devices that share each layer.", ge=1)
    link_bandwidth: float = option(
        64e9, "Bandwidth from each device to the next, for all-reduces.", unit="bytes/s", gt=0
    )
    link_latency: float = option(
        5e-6, "Latency of a message between devices.", unit="seconds", ge=0
    )
    overhead: float = option(
        0.0, "Time of a step beyond its operators: planning, launches.", unit="seconds", ge=0
    )
    per_request: float = option(
        8e-6,
        "Time of the host's work for each request. The default was fitted to runs of vLLM "
        "0.19; 0: the operators alone.",
        unit="seconds",
        ge=0,
    )


class Table(Estimator):
    """Operators of a step, each interpolated in measurements, added up.

    Dense operators count by tokens and attention by batch, once a layer; LM head and sampler by
    requests; with tensor parallelism two all-reduces a layer. Attention was measured for one
    prefill of q tokens behind kv and n decodes with equal contexts: several prefills count as
    equal ones of the same tokens and the same attention, contexts as their mean.

    ``attention.csv`` has ``prefill_chunk, kv_prefill, n_decode, kv_decode, time_us``,
    ``dense.csv`` has ``layer, tokens, time_us``, ``per_sequence.csv`` has ``layer, sequences,
    time_us``; ``profile.toml`` beside them may set ``num_layers``, ``hidden_size``, ``once``
    (operators outside of layers) and ``twice`` (operators that a layer has two of).
    """

    name = "table"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        folder = find_profile(options.profile, ctx.folder, f"{ctx.path}.profile")
        self._operators = read_operators(folder, options, ctx)
        self._num_layers = self._operators.num_layers

    def step_time(self, shape: StepShape) -> float:
        operators, num_requests = self._operators, shape.num_requests
        attention = self._attention(shape)
        return float(
            self.options.overhead
            + self.options.per_request * num_requests
            + operators.dense(shape.num_tokens)
            + operators.sequences(num_requests)
            + self._num_layers * attention
        )

    def decode_times(self, num_decodes: int, context: int) -> Iterator[float]:
        operators, options, num_layers = self._operators, self.options, self._num_layers
        fixed = (
            options.overhead
            + options.per_request * num_decodes
            + operators.dense(num_decodes)
            + operators.sequences(num_decodes)
        )
        attention = operators.decode_attention
        while True:
            yield fixed + num_layers * attention(num_decodes, context / num_decodes)
            context += num_decodes

    def _attention(self, shape: StepShape) -> float:
        """Attention of one layer (seconds)."""
        operators, num_decodes = self._operators, shape.num_decodes
        mean_context = shape.decode_context / num_decodes if num_decodes else 0.0
        if not shape.num_prefills:
            return operators.decode_attention(num_decodes, mean_context) if num_decodes else 0.0
        chunk = shape.num_prefill_tokens / shape.num_prefills
        context = max(0.0, shape.prefill_attention / shape.num_prefill_tokens - chunk / 2)
        alone = operators.prefill_attention(chunk, context)
        others = (shape.num_prefills - 1) * max(0.0, alone - operators.least_attention)
        if not num_decodes:
            return alone + others
        return operators.mixed_attention(chunk, context, num_decodes, mean_context) + others
