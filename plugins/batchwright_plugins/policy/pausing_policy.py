"""The base of policies that let running requests pause for better ones."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from batchwright.protocols import SchedulingPolicy
from batchwright.verdicts import Preempt

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["PausingPolicy"]

MAX_FREE_SEATS = 16
"""With more free seats than that, seats are not what requests wait for."""


class PausingPolicy(SchedulingPolicy):
    """Running requests pause for waiting ones that ``key`` places before them.

    The worst of those that run gives way to the best of those for which there is no
    seat, the second worst to the second best, and so on while the one that waits is
    strictly better. Who has yielded ``scheduler.max_policy_preemptions`` times stays.

    An upper bound of the keys that run tells in O(log waiting) that no request has to
    pause; only when one may, all that run are looked at, O(running). So a key of a
    running request that grows must be told with ``has_worsened``. Keys are compared with
    one another as they are: all of them numbers, or all of them tuples.
    """

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        self._worst: Any = None

    def has_worsened(self, request: RequestView) -> None:
        """Note a request whose key may be the worst of those that run."""
        key: Any = self.key(request)
        if self._worst is None or key > self._worst:
            self._worst = key

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self.has_worsened(request)

    def running_to_preempt(self, view: StepView) -> Iterator[Preempt]:
        num_free = self.ctx.sizes.max_num_seqs - view.num_running
        if num_free > MAX_FREE_SEATS:
            return
        best = self.queue.first(num_free + 1)[num_free:]
        if not best or self._worst is None or not self.key(best[0]) < self._worst:
            return
        running = self._worst_first(view)
        self._worst = running[0][0] if running else None
        for waiting, (key, request) in zip(
            self._without_seat(num_free, len(running)), running, strict=False
        ):
            if not self.key(waiting) < key:
                return
            yield Preempt(request, keep_blocks=True)

    def _worst_first(self, view: StepView) -> list[tuple[Any, RequestView]]:
        """Requests that may still be made to yield; of equals, the one admitted last first."""
        most = self.ctx.sizes.max_policy_preemptions
        movable = [
            (self.key(request), request)
            for request in reversed(view.running)
            if request.num_policy_preemptions < most
        ]
        return sorted(movable, key=itemgetter(0), reverse=True)

    def _without_seat(self, num_free: int, most: int) -> Iterator[RequestView]:
        """Waiting requests behind those that get free seats, looked up as they are wanted."""
        count = 0
        while count < most:
            upto = min(most, 2 * count + 1)
            found = self.queue.first(num_free + upto)[num_free + count :]
            yield from found
            if len(found) < upto - count:
                return
            count = upto
