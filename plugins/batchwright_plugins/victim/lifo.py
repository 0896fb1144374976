"""The one that was admitted last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Victim

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView

__all__ = ["Lifo"]


class Lifo(Victim):
    """The request that was admitted last is preempted. O(1).

    It has been served for the shortest time, so that requests near their end are spared. This
    is vLLM V1's choice under ``fcfs``.
    """

    name = "lifo"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        return next(reversed(running))
