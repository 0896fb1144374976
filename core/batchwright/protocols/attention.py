"""Attention backends: kernels over a paged KV cache."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, frozen

from batchwright.messages import BlockCopy
from batchwright.protocols.component import Component

if TYPE_CHECKING:
    import torch


@frozen(kw_only=True)
class AttentionSpec:
    """A model's requirements of an attention backend.

    Args:
        num_layers: Attention layers.
        num_query_heads: Query heads.
        num_kv_heads: Key and value heads; divides num_query_heads.
        head_size: Elements a head.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        device: ``cpu`` or ``cuda``.
        block_size: Tokens a block; 0 while it is not known.
        sliding_windows: By layer, tokens that a query sees, itself included; None: all.
        softcap: True if scores are capped (Gemma-2).
        sinks: True if layers have attention sinks (gpt-oss).
    """

    num_layers: int
    num_query_heads: int
    num_kv_heads: int
    head_size: int
    dtype: str
    device: str
    block_size: int
    sliding_windows: tuple[int | None, ...]
    softcap: bool = False
    sinks: bool = False


@define(kw_only=True)
class AttentionBatch:
    """One step's batch, prepared once and used by every layer.

    Requests are in the plan's order; tokens of one request are contiguous.

    Args:
        query_start_loc: ``[num_reqs + 1]`` int32, first token of each request.
        query_lens: Scheduled tokens a request.
        seq_lens: Tokens of a request in the cache after this step (computed + scheduled).
        block_tables: ``[num_reqs, max_blocks]`` int32, padded with 0 (the null block).
        slot_mapping: ``[num_tokens]`` int64, slot of each token's KV: block id * block_size +
            offset.
    """

    query_start_loc: torch.Tensor
    query_lens: Sequence[int]
    seq_lens: Sequence[int]
    block_tables: torch.Tensor
    slot_mapping: torch.Tensor


@frozen(eq=False)
class LayerCall:
    """One layer's attention in one step.

    Args:
        layer: Index of the attention layer.
        query: ``[num_tokens, num_query_heads, head_size]``, positions already applied.
        key: ``[num_tokens, num_kv_heads, head_size]``, positions already applied.
        value: ``[num_tokens, num_kv_heads, head_size]``.
        scale: Factor on the scores.
        softcap: Scores become ``softcap * tanh(score / softcap)``; None: they stay.
        sinks: ``[num_query_heads]`` extra logit a head in the softmax; None: none.
    """

    layer: int
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scale: float = field(kw_only=True)
    softcap: float | None = field(default=None, kw_only=True)
    sinks: torch.Tensor | None = field(default=None, kw_only=True)


class AttentionBackend(Component):
    """Paged attention for one model: holds the cache and computes with it.

    Faults: an exception is a failure of the step (see Executor).

    Attributes:
        preference: Place among those that ``attention.backend = "auto"`` tries, higher first;
            None: it is used only if it is named.
    """

    preference: ClassVar[int | None] = None

    @abstractmethod
    def unsupported(self, spec: AttentionSpec) -> str | None:
        """Return in one sentence why it cannot serve this model here; None if it can."""

    @abstractmethod
    def allocate(self, spec: AttentionSpec, num_blocks: int) -> None:
        """Allocate the cache of every layer: num_blocks * spec.block_size tokens."""

    @abstractmethod
    def begin_step(self, batch: AttentionBatch) -> None:
        """Prepare the work that all layers of this step share."""

    @abstractmethod
    def forward(self, call: LayerCall) -> torch.Tensor:
        """Write this step's keys and values and attend, causally, over the cache.

        Args:
            call: The layer and its inputs.

        Returns:
            ``[num_tokens, num_query_heads, head_size]``, in the type of the queries.
        """

    @abstractmethod
    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """Copy whole blocks in every layer, before the step computes."""
