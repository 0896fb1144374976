"""The one that holds most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Victim

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView

__all__ = ["MostBlocks"]


class MostBlocks(Victim):
    """The request that holds most KV blocks yields; of those, the one admitted last.

    One victim frees as much as can be, so that few have to yield; what it computes again
    is the most as well. Longest first, as in the swapping schedulers before vLLM V1.
    Blocks are counted as ``ceil(computed tokens / block_size)``, shared ones included.
    Makes the longest request wait again and again while shorter ones keep coming; who
    yields keeps its place in the queue, and that bounds it. O(running).
    """

    name = "most-blocks"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        size = self.ctx.sizes.block_size
        return max(reversed(running), key=lambda request: -(-request.num_computed_tokens // size))
