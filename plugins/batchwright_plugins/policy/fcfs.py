"""First come, first served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import SchedulingPolicy

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView

__all__ = ["Fcfs"]


class Fcfs(SchedulingPolicy):
    """First come, first served: requests are admitted in the order they were added.

    A preempted request goes to the front of the queue; of several, the one that was
    preempted last stands first, which is the order in which they had been admitted.
    Starves no request. All operations O(log n). Decides as vLLM V1's ``fcfs`` does.
    """

    name = "fcfs"

    def key(self, request: RequestView) -> Key:
        return 0

    def requeue(self, request: RequestView) -> None:
        self.queue.put_first(request)
