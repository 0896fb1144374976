"""The one that holds most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Victim

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView

__all__ = ["MostBlocks"]


class MostBlocks(Victim):
    """The request with most KV blocks is preempted; ties, the one admitted last.

    One victim frees as many blocks as possible, so that few requests are preempted; it also
    recomputes the most. Longest first, as in the swapping schedulers before vLLM V1. Blocks are
    counted as ``ceil(computed tokens / block_size)``, shared ones included. The longest request
    may wait again and again while shorter ones keep coming; a victim keeps its place in the
    queue, and that bounds its wait. O(running).
    """

    name = "most-blocks"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        size = self.ctx.sizes.block_size
        return max(reversed(running), key=lambda request: -(-request.num_computed_tokens // size))
