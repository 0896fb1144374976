"""The one that frees most for what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Victim

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView

__all__ = ["CostAware"]


class CostAware(Victim):
    """The victim with most ``reclaimable blocks / recomputation * (1 - progress)``; ties, the last.

    Reclaimable blocks are those that no other request holds. Recomputation is the number of
    computed tokens, at least 1: a request whose prefix others share frees few blocks for its
    price. Progress is the share of the predicted output tokens, so that a request that is
    nearly done is spared; it will soon free everything by itself. A request that frees nothing
    is last. This is the benefit-over-cost rule of cost-aware caches (GreedyDual, Cao and Irani
    1997), applied to requests.

    As good as ``scheduler.predictor``. Starves no request, as ``least-computed``. O(blocks of
    running requests).
    """

    name = "cost-aware"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        return max(reversed(running), key=self.worth)

    def worth(self, request: RequestView) -> float:
        """Return the benefit of preempting a request, divided by its cost."""
        (total,) = self.ctx.predict(request)
        progress = min(1.0, request.num_output_tokens / max(1.0, total))
        reclaimable = self.ctx.view.num_own_blocks(request)
        return reclaimable / max(1, request.num_computed_tokens) * (1 - progress)
