"""The attention backend ``triton``: our own kernel over a paged cache."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Final

from attrs import evolve, field, frozen, validators

from .deferred import DeferredAttention
from .support import Library, Support

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionSpec

    from .triton_attention import TritonPagedAttention

__all__ = ["INTERPRETED", "TritonAttention", "TritonAttentionOptions", "is_interpreted"]

INTERPRETED: Final[dict[str, Any]] = {
    "devices": ("cpu", "cuda"),
    "capability": None,
    "dtypes": ("float32", "float16"),  # it takes bfloat16 for integers
}
"""Changes of a backend's support under Triton's interpreter."""


def is_interpreted() -> bool:
    """Return True if Triton interprets its kernels on the CPU, instead of compiling them."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@frozen
class TritonAttentionOptions:
    """Options of the attention backend ``triton`` (table ``[attention.triton]``)."""

    splits: int | None = field(
        default=None,
        validator=validators.optional(validators.and_(validators.ge(1), validators.le(64))),
        metadata={
            "help": "Parts that a long context is computed in, side by side; by default as "
            "many as it takes to keep the GPU busy.",
            "unit": "parts",
        },
    )


class TritonAttention(DeferredAttention):
    """Paged attention by a Triton kernel of our own, on CUDA.

    One kernel computes decodes, prefills, chunks of them and any mix in one launch. If there is
    too little of that to fill the GPU, long contexts are split and merged. Serves grouped query
    heads, a sliding window a layer, soft-capped scores and attention sinks, with blocks of any
    size. Triton comes with torch for CUDA.

    Under Triton's interpreter (``TRITON_INTERPRET=1``) it computes on a CPU too, very slowly.
    The tests use it on machines without a GPU.
    """

    name: ClassVar[str] = "triton"
    Options: ClassVar[type] = TritonAttentionOptions
    preference: ClassVar[int | None] = 20
    support: ClassVar[Support] = Support(
        devices=("cuda",),
        capability=(8, 0),
        most_head_size=256,
        most_group_size=128,
        libraries=(Library("triton", (3, 2), None, "pip install triton"),),
    )

    def unsupported(self, spec: AttentionSpec) -> str | None:
        if is_interpreted():
            return evolve(self.support, **INTERPRETED).problem(spec)
        return super().unsupported(spec)

    def _make(self, spec: AttentionSpec, num_blocks: int) -> TritonPagedAttention:
        from .triton_attention import TritonPagedAttention

        return TritonPagedAttention(spec, num_blocks, self.options.splits)
