"""The attention backend ``torch-varlen``: FlashAttention with block tables, through torch."""

from __future__ import annotations

from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, ClassVar

from .deferred import DeferredAttention
from .support import Support

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionSpec

    from .varlen_attention import VarlenPagedAttention

__all__ = ["TorchVarlenAttention"]

_IMPLEMENTATIONS = {9: ("FA3", "flash_attn_interface"), 10: ("FA4", "flash_attn")}
"""By major compute capability: what torch calls it, and the module that it comes in."""


class TorchVarlenAttention(DeferredAttention):
    """Paged attention by ``torch.nn.attention.varlen.varlen_attn``, on CUDA.

    The kernel that comes with torch (FlashAttention 2) takes no block tables: this backend
    needs FlashAttention 3 on Hopper or FlashAttention 4 on Blackwell, and activates it for the
    whole process. It makes one call a layer, whatever the mix. Serves grouped query heads and a
    sliding window a layer, in float16 and bfloat16.
    """

    name: ClassVar[str] = "torch-varlen"
    preference: ClassVar[int | None] = 10
    support: ClassVar[Support] = Support(
        devices=("cuda",),
        capability=(9, 0),
        dtypes=("bfloat16", "float16"),
        most_head_size=256,
        head_size_multiple=8,
        softcap=False,
        sinks=False,
    )

    def _missing(self, spec: AttentionSpec) -> str | None:
        import torch

        return _no_block_tables() or _no_implementation(torch.cuda.get_device_capability()[0])

    def _make(self, spec: AttentionSpec, num_blocks: int) -> VarlenPagedAttention:
        import torch
        from torch.nn import attention

        from .varlen_attention import VarlenPagedAttention

        name, _ = _IMPLEMENTATIONS[torch.cuda.get_device_capability()[0]]
        if attention.current_flash_attention_impl() != name:
            attention.activate_flash_attention_impl(name)
        return VarlenPagedAttention(spec, num_blocks)


def _no_block_tables() -> str | None:
    """Return the reason if this torch's ``varlen_attn`` takes no block tables."""
    import torch

    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return f"torch {torch.__version__} has no varlen_attn"
    if "block_table" not in signature(varlen_attn).parameters:
        return f"varlen_attn of torch {torch.__version__} takes no block tables"
    return None


def _no_implementation(major: int) -> str | None:
    """Return the reason if no FlashAttention on this GPU takes block tables."""
    known = _IMPLEMENTATIONS.get(major)
    if known is None:
        return f"no FlashAttention takes block tables on compute capability {major}"
    name, module = known
    if find_spec(module) is None:
        return (
            f"torch's own FlashAttention takes no block tables, and {name} (the module "
            f"{module}) is not installed"
        )
    return None
