"""The most urgent first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import SchedulingPolicy

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView

__all__ = ["Priority"]


class Priority(SchedulingPolicy):
    """Smaller ``priority`` first, then earlier arrival, then insertion.

    A preempted request returns to its own place in this order. Under it
    ``victim = "auto"`` means ``lowest-priority``. Starves requests of low urgency for
    as long as more urgent ones keep coming. All operations O(log n). Decides as vLLM
    V1's ``priority`` does.
    """

    name = "priority"
    default_victim = "lowest-priority"

    def key(self, request: RequestView) -> Key:
        if self.ctx.compat.orders_equals_by_id:
            return (request.priority, request.arrival_time, _as_number(request.request_id))
        return (request.priority, request.arrival_time)


def _as_number(request_id: str) -> int:
    """A number that orders as the id does (in its first 64 bytes)."""
    return int.from_bytes(request_id.encode().ljust(64, b"\0")[:64], "big")
