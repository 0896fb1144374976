"""A decoder computed layer by layer, without the modules that it was loaded with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from attrs import frozen
from torch.nn.functional import embedding

if TYPE_CHECKING:
    from .decoder_layer import DecoderLayer, Norm
    from .language_model import LayerAttention
    from .linear import Linear
    from .rotary_table import Rotary, RotaryTable

__all__ = ["Decoder"]


@frozen(eq=False, kw_only=True)
class Decoder:
    """All of a decoder.

    What modules do beside computing (hooks, masks, caches, keyword arguments) takes
    longer than the tensors of a small model; here there is nothing else. Queries, keys
    and values are one product, and so are a gate and what it gates.

    Args:
        embeddings: ``[vocab_size, hidden_size]``.
        embedding_factor: Factor on embeddings.
        rotaries: The distinct position embeddings of the layers.
        layers: In order.
        norm: Of what the logits are computed from.
        head: To logits.
        logits_divisor: Divisor of logits.
        logits_cap: Cap of logits; None: none.
    """

    embeddings: torch.Tensor
    embedding_factor: float
    rotaries: tuple[RotaryTable, ...]
    layers: tuple[DecoderLayer, ...]
    norm: Norm
    head: Linear
    logits_divisor: float
    logits_cap: float | None

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor,
        backend: LayerAttention,
    ) -> torch.Tensor | None:
        """See ``LanguageModel.forward``.

        Of the last layer only attention needs every token: keys and values are for the
        cache, the rest is for logits.
        """
        x = embedding(token_ids, self.embeddings)
        if self.embedding_factor != 1.0:
            x = x * self.embedding_factor
        factors = {id(rotary): rotary.lookup(positions) for rotary in self.rotaries}
        *first, last = self.layers
        for layer in first:
            x = layer.finish(x, layer.attend(x, _of(layer, factors), backend))
        attended = last.attend(x, _of(last, factors), backend)
        if rows.shape[0] < x.shape[0]:
            if not rows.shape[0]:
                return None
            x, attended = x.index_select(0, rows), attended.index_select(0, rows)
        return self._logits(last.finish(x, attended))

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.norm(x))
        if self.logits_divisor != 1.0:
            logits = logits / self.logits_divisor
        if self.logits_cap is not None:
            logits = torch.tanh(logits / self.logits_cap) * self.logits_cap
        return logits


def _of(layer: DecoderLayer, factors: dict[int, Rotary]) -> Rotary | None:
    return None if layer.rotary is None else factors[id(layer.rotary)]
