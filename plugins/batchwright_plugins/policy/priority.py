"""The most urgent first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import SchedulingPolicy

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView

__all__ = ["Priority"]


@frozen
class Options:
    """Options of priority."""

    displaces: bool = option(
        False,
        "Whether the head of the queue takes a seat, or blocks, of a strictly less urgent "
        "running request if it finds none.",
    )


class Priority(SchedulingPolicy):
    """Smaller ``priority`` first, then earlier arrival, then insertion.

    A preempted request returns to its own place in this order. Under it
    ``victim = "auto"`` means ``lowest-priority``. Starves requests of low urgency for
    as long as more urgent ones keep coming. All operations O(log n). Decides as vLLM
    V1's ``priority`` does.

    With ``displaces`` an urgent request need not wait until somebody ends: the one that
    the victim names pauses if it lacks a seat (and keeps its blocks as long as nobody else
    lacks them), or gives up its blocks if those are what is missing, provided it is
    strictly less urgent, and the urgent one is certain to be admitted then.
    ``scheduler.max_displacements`` bounds how often one request yields; the victim costs
    O(running), in a step in which something has changed.
    """

    name = "priority"
    default_victim = "lowest-priority"
    Options = Options

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        if not options.displaces:
            self.idle_methods = ("displaces",)

    def key(self, request: RequestView) -> Key:
        if self.ctx.compat.orders_equals_by_id:
            return (request.priority, request.arrival_time, _as_number(request.request_id))
        return (request.priority, request.arrival_time)

    def displaces(self, waiting: RequestView, running: RequestView) -> bool:
        return waiting.priority < running.priority


def _as_number(request_id: str) -> int:
    """A number that orders as the id does (in its first 64 bytes)."""
    return int.from_bytes(request_id.encode().ljust(64, b"\0")[:64], "big")
