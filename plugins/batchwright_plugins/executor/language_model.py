"""What a model runner computes with: tokens in, logits out, attention elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .attention_bridge import NAME, AttentionTarget, BackendTarget

if TYPE_CHECKING:
    import torch

__all__ = ["LanguageModel", "LayerAttention", "TransformersModel"]


class LayerAttention(Protocol):
    """What a model needs of an attention backend while it computes."""

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
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
        return self.forward_to(token_ids, positions, rows, BackendTarget(backend))

    def forward_to(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor,
        target: AttentionTarget,
    ) -> torch.Tensor | None:
        """As ``forward``, with attention computed by ``target``."""
        arguments = {
            "input_ids": token_ids.unsqueeze(0),
            "position_ids": positions.unsqueeze(0),
            "use_cache": False,
            NAME: target,
        }
        if not len(rows):
            self._model.base_model(**arguments)
            return None
        logits: torch.Tensor = self._model(logits_to_keep=rows, **arguments).logits[0]
        return logits
