"""The attention backend ``numba``: our own kernel over a paged cache, on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from batchwright_engine.compiled.compiler import problem

from .deferred import DeferredAttention
from .support import Library, Support

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionSpec

    from .numba_attention import NumbaPagedAttention

__all__ = ["NumbaAttention", "NumbaAttentionOptions"]


@frozen
class NumbaAttentionOptions:
    """Options of the attention backend ``numba`` (table ``[attention.numba]``): none."""


class NumbaAttention(DeferredAttention):
    """Paged attention by a kernel of our own that numba compiles, on a CPU.

    Decodes read keys and values in place in the cache, once, and keep their sums in float32.
    The work of a step is divided evenly over threads, whatever the lengths of contexts. Prompts
    and chunks of them are computed as by ``torch``.

    Serves grouped query heads, a sliding window a layer, soft-capped scores and attention
    sinks, with blocks of any size, in float32 and bfloat16.

    The kernel is compiled when it is first used for a model's head size and group (some
    seconds), and kept on disk.
    """

    name: ClassVar[str] = "numba"
    Options: ClassVar[type] = NumbaAttentionOptions
    preference: ClassVar[int | None] = 5
    support: ClassVar[Support] = Support(
        devices=("cpu",),
        dtypes=("float32", "bfloat16"),
        most_head_size=256,
        most_group_size=32,
        libraries=(Library("numba", (0, 61), None, "pip install numba"),),
    )

    def _missing(self, spec: AttentionSpec) -> str | None:
        return problem()

    def _make(self, spec: AttentionSpec, num_blocks: int) -> NumbaPagedAttention:
        from .numba_attention import NumbaPagedAttention

        return NumbaPagedAttention(spec, num_blocks)
