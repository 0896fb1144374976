"""The one that has least to compute again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Victim

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView

__all__ = ["LeastComputed"]


class LeastComputed(Victim):
    """The request with fewest computed tokens is preempted; ties, the one admitted last.

    With recomputation the computed tokens are the price of a preemption, so this victim costs
    least now. It may take more victims than ``most-blocks`` to get the blocks. Starves no
    request: a victim keeps its place in the queue, and requests that run before it end.
    O(running).
    """

    name = "least-computed"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        return min(reversed(running), key=lambda request: request.num_computed_tokens)
