"""Since when requests wait."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from batchwright.protocols import Control
from batchwright.queues.heap import PlaceHeap

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["WaitingAges"]


class WaitingAges(Control):
    """The earliest arrival among waiting requests, those that wait for a key included.

    O(log waiting) when a request comes, is admitted, is preempted or ends.
    """

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        self._ages: PlaceHeap[RequestView] = PlaceHeap()
        self._serial = count()

    @property
    def earliest_arrival(self) -> float | None:
        """Seconds on the clock; None if no request waits."""
        oldest = self._ages.peek()
        return None if oldest is None else oldest.arrival_time

    def on_add(self, request: RequestView) -> None:
        if request.finish is None:
            self._ages.push(request, (request.arrival_time,), next(self._serial))

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._drop(request)

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        if request not in self._ages:
            self.on_add(request)

    def on_finish(self, request: RequestView) -> None:
        self._drop(request)

    def _drop(self, request: RequestView) -> None:
        if request in self._ages:
            self._ages.remove(request)
