"""The attention backend ``xformers``: its split-k kernel over a paged cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import evolve, field, frozen, validators

from batchwright_plugins.extras import install_hint

from .deferred import DeferredAttention
from .support import Library, Support
from .triton_paged import INTERPRETED, is_interpreted

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionSpec

    from .xformers_attention import XformersPagedAttention

__all__ = ["XformersAttention", "XformersAttentionOptions"]


@frozen
class XformersAttentionOptions:
    """Options of the attention backend ``xformers`` (table ``[attention.xformers]``)."""

    gather_from: int = field(
        default=16,
        validator=validators.ge(2),
        metadata={
            "help": "Tokens of one request in a step from which its keys are gathered for "
            "one dense call, instead of looked up by each token; only where xformers has a "
            "dense kernel for this torch.",
            "unit": "tokens",
        },
    )


class XformersAttention(DeferredAttention):
    """Paged attention by xformers 0.0.35, on CUDA.

    Decodes, and the tokens of short chunks one by one, go through xformers' split-k kernel,
    with a request's block table as its pages. Query heads that share a key head are expanded
    with a stride of zero, so that each key is read once. Longer prefills gather their keys and
    use a block-diagonal causal mask. Serves grouped query heads and a sliding window a layer,
    in float16 and bfloat16, with blocks of 16 tokens or a multiple of it.

    The split-k kernel is Triton code and runs beside newer versions of torch, for any torch and
    CUDA that the compiled part of xformers was built for.
    """

    name: ClassVar[str] = "xformers"
    Options: ClassVar[type] = XformersAttentionOptions
    preference: ClassVar[int | None] = 30
    support: ClassVar[Support] = Support(
        devices=("cuda",),
        capability=(8, 0),
        dtypes=("bfloat16", "float16"),
        head_sizes=(16, 32, 64, 128, 256, 512),
        block_multiple=16,
        softcap=False,
        sinks=False,
        libraries=(
            Library("xformers", (0, 0, 35), (0, 0, 36), install_hint("cuda")),
            Library("triton", (3, 2), None, "pip install triton"),
        ),
    )

    def unsupported(self, spec: AttentionSpec) -> str | None:
        if is_interpreted():
            return evolve(self.support, **INTERPRETED).problem(spec)
        return super().unsupported(spec)

    def _missing(self, spec: AttentionSpec) -> str | None:
        try:
            from . import xformers_attention  # noqa: F401
        except Exception as error:
            return f"xformers is installed, but cannot be imported here: {error}"
        return None

    def _make(self, spec: AttentionSpec, num_blocks: int) -> XformersPagedAttention:
        from .xformers_attention import XformersPagedAttention

        return XformersPagedAttention(spec, num_blocks, self.options.gather_from)
