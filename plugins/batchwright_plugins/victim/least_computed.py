"""The one that has least to compute again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Victim

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView

__all__ = ["LeastComputed"]


class LeastComputed(Victim):
    """The request with fewest computed tokens yields; of those, the one admitted last.

    With recomputation the computed tokens are the price of a preemption, so this one pays
    least, now; it may take more victims than ``most-blocks`` to get the blocks. Starves
    no request: a victim keeps its place in the queue, and those that run ahead of it end.
    O(running).
    """

    name = "least-computed"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        return min(reversed(running), key=lambda request: request.num_computed_tokens)
