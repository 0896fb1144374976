"""Leads the attention of a transformers model to the backend that computes it.

transformers looks the attention function up by name and hands it what the caller of
the model passed along: that is how the function below learns where to turn, with no
global state. A name for which no mask function is registered gets no mask built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from batchwright.exceptions import ModelError
from batchwright.protocols.attention import LayerCall

if TYPE_CHECKING:
    import torch

__all__ = ["NAME", "AttentionTarget", "ModuleCall", "register"]

NAME = "batchwright"
"""The attention implementation's name in transformers, and the argument's."""


@frozen(eq=False, kw_only=True)
class ModuleCall(LayerCall):
    """A layer's call, with what its module says beside what a backend asks for.

    Args:
        module: The attention layer.
        window: Tokens that a query sees, itself included; None: all before it.
        extra: Everything else that came along.
    """

    module: torch.nn.Module
    window: int | None
    extra: dict[str, Any]


class AttentionTarget(Protocol):
    """The backend that computes attention, from the ``LayerCall`` in it."""

    def forward(self, call: ModuleCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``."""
        ...


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
            "which therefore does not know whose cache it works on"
        )
    layer = getattr(module, "layer_idx", None)
    if attention_mask is not None or not isinstance(layer, int):
        raise ModelError(f"{type(module).__name__} needs an attention mask or has no index")
    call = ModuleCall(
        layer=layer,
        query=query[0].transpose(0, 1),
        key=key[0].transpose(0, 1),
        value=value[0].transpose(0, 1),
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=kwargs.pop("softcap", None),
        sinks=kwargs.pop("s_aux", None),
        module=module,
        window=kwargs.pop("sliding_window", None),
        extra=kwargs,
    )
    return target.forward(call).unsqueeze(0), None
