"""The attention backend ``torch``: scaled_dot_product_attention over a paged cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import field, frozen, validators

from .deferred import DeferredAttention
from .support import Support

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionSpec

    from .paged_attention import PagedAttention

__all__ = ["TorchAttention", "TorchAttentionOptions"]


@frozen
class TorchAttentionOptions:
    """Options of the attention backend ``torch`` (table ``[attention.torch]``)."""

    chunk_tokens: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={
            "help": "Most cached tokens that one call gathers for a group of decodes; "
            "by default 16384 on a CPU (its cache holds them) and 262144 on CUDA.",
            "unit": "tokens",
        },
    )
    kept_mib: int = field(
        default=256,
        validator=validators.ge(0),
        metadata={
            "help": "Most memory, on a CPU, for gathered keys and values that are kept from "
            "step to step while the same requests decode together; 0: none.",
            "unit": "MiB",
        },
    )


class TorchAttention(DeferredAttention):
    """Paged attention by torch's own operations, on a CPU or on CUDA.

    Decodes are sorted by length and computed a group at a time: their blocks are gathered into
    one buffer, and the query heads that share a key head are the query rows of one
    ``scaled_dot_product_attention``. A request with several tokens in the step is computed by a
    call of its own. Slots that no query may see are blanked before they are used, so that the
    content of an unused slot, NaN included, has no effect.

    Serves grouped query heads, a sliding window a layer, soft-capped scores and attention sinks
    (the latter two without the fused kernel), in float32, bfloat16 and float16.
    """

    name: ClassVar[str] = "torch"
    Options: ClassVar[type] = TorchAttentionOptions
    preference: ClassVar[int | None] = 0
    support: ClassVar[Support] = Support()

    def _make(self, spec: AttentionSpec, num_blocks: int) -> PagedAttention:
        from .paged_attention import PagedAttention

        return PagedAttention(
            spec, num_blocks, self.options.chunk_tokens, self.options.kept_mib << 20
        )
