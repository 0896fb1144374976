"""Anyone."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from batchwright.protocols import Victim

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView

__all__ = ["RandomVictim"]


class RandomVictim(Victim):
    """A random running request is preempted: a baseline for the others.

    The random numbers are of a stream of its own, the same in every run of the same
    ``scheduler.seed``. O(running).
    """

    name = "random"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        return next(islice(running, self.ctx.random.randrange(len(running)), None))
