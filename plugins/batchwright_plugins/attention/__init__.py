"""Attention backends that ship with Batchwright."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchwright.protocols.attention import AttentionBackend


@hookimpl
def batchwright_register_attention() -> Sequence[type[AttentionBackend]]:
    """Offer the backends; none of them imports torch before it is used."""
    from .numba_paged import NumbaAttention
    from .torch_paged import TorchAttention
    from .torch_varlen import TorchVarlenAttention
    from .triton_paged import TritonAttention
    from .xformers_paged import XformersAttention

    return [
        NumbaAttention,
        TorchAttention,
        TorchVarlenAttention,
        TritonAttention,
        XformersAttention,
    ]
