"""The model of a model runner: tokens in, logits out, attention elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .attention_bridge import NAME

if TYPE_CHECKING:
    import torch

    from batchwright.protocols.attention import LayerCall

__all__ = ["LanguageModel", "LayerAttention", "TransformersModel"]


class LayerAttention(Protocol):
    """The attention that a model calls while it computes."""

    def forward(self, call: LayerCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``."""
        ...


class LanguageModel(Protocol):
    """A decoder over a flat batch."""

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor,
        backend: LayerAttention,
    ) -> torch.Tensor | None:
        """Compute a step, between the backend's ``begin_step`` and the next.

        Args:
            token_ids: ``[num_tokens]`` int64.
            positions: ``[num_tokens]`` int64, in each token's own sequence.
            rows: ``[num_rows]`` int64, ascending, the tokens whose logits are wanted.
            backend: Computes attention.

        Returns:
            ``[num_rows, vocab_size]``; None without rows.
        """
        ...


class TransformersModel:
    """A model computed by its own modules.

    Args:
        model: A causal language model of transformers, set up for the bridge.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor,
        backend: LayerAttention,
    ) -> torch.Tensor | None:
        """See ``LanguageModel.forward``."""
        arguments = {
            "input_ids": token_ids.unsqueeze(0),
            "position_ids": positions.unsqueeze(0),
            "use_cache": False,
            NAME: backend,
        }
        if not len(rows):
            self._model.base_model(**arguments)
            return None
        logits: torch.Tensor = self._model(logits_to_keep=rows, **arguments).logits[0]
        return logits
