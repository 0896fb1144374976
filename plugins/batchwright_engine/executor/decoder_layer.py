"""One layer of a decoder: attention, then a gated MLP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from attrs import frozen

from batchwright.protocols.attention import LayerCall

from .elementwise import gate, normalise, rotate
from .rotary_table import Rotary, RotaryTable

if TYPE_CHECKING:
    from .language_model import LayerAttention
    from .linear import Linear

__all__ = ["DecoderLayer", "HeadsNorm", "Norm", "WholeNorm"]


class Norm:
    """Root mean square norm over the last dimension (Zhang, Sennrich 2019).

    Args:
        gain: ``[size]``.
        eps: Added to the mean square.
        offset: Added to the gain, which is then applied in float32.
    """

    def __init__(self, gain: torch.Tensor, eps: float, offset: float = 0.0) -> None:
        self._eps = eps
        self._gain = gain if offset == 0.0 else gain.float() + offset

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return normalise(x, self._gain, self._eps)


class HeadsNorm:
    """Normalises every query and key head by itself; queries and keys have their gains.

    Args:
        query: ``[head_size]`` gain.
        key: ``[head_size]`` gain.
        num_query_heads: Number of query heads.
        eps: Added to the mean square.
        offset: Added to the gains.
    """

    def __init__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        num_query_heads: int,
        eps: float,
        offset: float = 0.0,
    ) -> None:
        self._num_query_heads = num_query_heads
        self._query = Norm(query, eps, offset)
        self._key = Norm(key, eps, offset)

    def __call__(self, heads: torch.Tensor) -> torch.Tensor:
        """Normalise ``[num_tokens, num_query_heads + num_kv_heads, head_size]``."""
        parts = heads[:, : self._num_query_heads], heads[:, self._num_query_heads :]
        return torch.cat((self._query(parts[0]), self._key(parts[1])), 1)


class WholeNorm(HeadsNorm):
    """Normalises all query heads of a token together, and all key heads."""

    def __call__(self, heads: torch.Tensor) -> torch.Tensor:
        parts = heads[:, : self._num_query_heads], heads[:, self._num_query_heads :]
        query, key = self._query(parts[0].flatten(1)), self._key(parts[1].flatten(1))
        return torch.cat((query, key), 1).view(heads.shape)


@frozen(eq=False, kw_only=True)
class DecoderLayer:
    """The weights and operations of a layer.

    Args:
        index: Which layer it is.
        num_query_heads: Query heads.
        num_kv_heads: Key and value heads.
        head_size: Elements a head.
        scale: Factor on the scores.
        softcap: Cap of the scores; None: none.
        rotary: Position embeddings; None: the layer has none.
        before_attention: Norm of what attention reads; None: none.
        after_attention: Norm of what it gives; None: none.
        before_mlp: Norm of what the MLP reads; None: none.
        after_mlp: Norm of what it gives; None: none.
        heads_norm: Norm of queries and keys; None: none.
        qkv: To queries, keys and values, one behind the other.
        attention_output: From heads back to the residual stream.
        gate_up: To the gate and what is gated, one behind the other.
        down: Back to the residual stream.
        activation: Of the gate.
        residual_factor: Factor on what is added to the residual stream.
    """

    index: int
    num_query_heads: int
    num_kv_heads: int
    head_size: int
    scale: float
    softcap: float | None
    rotary: RotaryTable | None
    before_attention: Norm | None
    after_attention: Norm | None
    before_mlp: Norm | None
    after_mlp: Norm | None
    heads_norm: HeadsNorm | None
    qkv: Linear
    attention_output: Linear
    gate_up: Linear
    down: Linear
    activation: Callable[[torch.Tensor], torch.Tensor]
    residual_factor: float

    def attend(
        self, x: torch.Tensor, rotary: Rotary | None, backend: LayerAttention
    ) -> torch.Tensor:
        """Return the result of attention, before it is projected back.

        Args:
            x: ``[num_tokens, hidden_size]`` residual stream.
            rotary: Factors of the tokens' positions.
            backend: Computes attention.

        Returns:
            ``[num_tokens, num_query_heads * head_size]``.
        """
        read = x if self.before_attention is None else self.before_attention(x)
        heads = self.qkv(read).view(x.shape[0], -1, self.head_size)
        both = heads[:, : self.num_query_heads + self.num_kv_heads]
        if self.heads_norm is not None:
            both = self.heads_norm(both)
        if rotary is not None and self.rotary is not None:
            both = rotate(both, *rotary, self.rotary.rotary_size)
        call = LayerCall(
            self.index,
            both[:, : self.num_query_heads],
            both[:, self.num_query_heads :],
            heads[:, self.num_query_heads + self.num_kv_heads :],
            scale=self.scale,
            softcap=self.softcap,
        )
        return backend.forward(call).view(x.shape[0], -1)

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """The residual stream behind the layer.

        Args:
            x: ``[num_tokens, hidden_size]`` residual stream before the layer.
            attended: Result of ``attend`` for these tokens.
        """
        x = self._add(x, self.attention_output, attended, self.after_attention)
        read = x if self.before_mlp is None else self.before_mlp(x)
        gated = gate(self.gate_up(read), self.activation)
        return self._add(x, self.down, gated, self.after_mlp)

    def _add(
        self, x: torch.Tensor, product: Linear, inputs: torch.Tensor, norm: Norm | None
    ) -> torch.Tensor:
        if norm is None and self.residual_factor == 1.0:
            return product.added_to(x, inputs)
        given = product(inputs)
        if norm is not None:
            given = norm(given)
        return torch.add(x, given, alpha=self.residual_factor)
