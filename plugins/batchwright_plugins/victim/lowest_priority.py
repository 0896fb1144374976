"""The least urgent one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Victim

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView

__all__ = ["LowestPriority"]


class LowestPriority(Victim):
    """The least urgent request is preempted; ties, the one that arrived last. O(running).

    That is the maximum of (priority, arrival_time); ties fall to the one that was admitted
    first. This is vLLM V1's choice under ``priority``.
    """

    name = "lowest-priority"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        return max(running, key=lambda request: (request.priority, request.arrival_time))
