"""Leads the attention of a transformers model to whoever computes it.

transformers looks the attention function up by name and hands it what the caller of
the model passed along: that is how the function below learns where to turn, with no
global state. A name for which no mask function is registered gets no mask built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from batchwright.exceptions import ModelError

if TYPE_CHECKING:
    import torch

    from .language_model import LayerAttention

__all__ = ["NAME", "AttentionCall", "AttentionTarget", "BackendTarget", "register"]

NAME = "batchwright"
"""The attention implementation's name in transformers, and the argument's."""


@frozen(eq=False)
class AttentionCall:
    """What a layer says beside its tensors.

    Args:
        module: The attention layer.
        layer: Its index.
        scale: Factor on the scores.
        window: Tokens that a query sees, itself included; None: all before it.
        softcap: Cap of the scores; None: none.
        sinks: ``[num_query_heads]`` extra logits; None: none.
        extra: Everything else that came along.
    """

    module: torch.nn.Module
    layer: int
    scale: float
    window: int | None
    softcap: float | None
    sinks: torch.Tensor | None
    extra: dict[str, Any]


class AttentionTarget(Protocol):
    """Who computes attention."""

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, call: AttentionCall
    ) -> torch.Tensor:
        """Attend; tensors are ``[num_tokens, heads, head_size]``, as is the answer."""
        ...


@frozen(eq=False)
class BackendTarget:
    """An attention backend, between its ``begin_step`` and the next."""

    backend: LayerAttention

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, call: AttentionCall
    ) -> torch.Tensor:
        return self.backend.forward(
            call.layer, query, key, value, scale=call.scale, softcap=call.softcap, sinks=call.sinks
        )


def register() -> None:
    """Make the attention function known to transformers; harmless when repeated."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """One layer's attention; tensors are ``[1, heads, num_tokens, head_size]``."""
    target: AttentionTarget | None = kwargs.pop(NAME, None)
    if target is None:
        raise ModelError(
            f"{type(module).__name__} passes no arguments on to its attention function, "
            "which therefore cannot tell whose cache it works on"
        )
    layer = getattr(module, "layer_idx", None)
    if attention_mask is not None or not isinstance(layer, int):
        raise ModelError(f"{type(module).__name__} needs an attention mask or has no index")
    call = AttentionCall(
        module=module,
        layer=layer,
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        window=kwargs.pop("sliding_window", None),
        softcap=kwargs.pop("softcap", None),
        sinks=kwargs.pop("s_aux", None),
        extra=kwargs,
    )
    output = target.attend(
        query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1), call
    )
    return output.unsqueeze(0), None
