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

    preempts: bool = option(
        False,
        "True if the head of the queue may preempt a strictly less urgent running request for"
        " a seat or blocks.",
    )


class Priority(SchedulingPolicy):
    """Smaller ``priority`` first, then earlier arrival, then insertion.

    A preempted request returns to its own place in this order. Under it ``victim = "auto"``
    means ``lowest-priority``. Starves requests of low urgency while more urgent ones keep
    coming. All operations O(log n). Decides as vLLM V1's ``priority`` does.

    With ``preempts`` an urgent request need not wait until another one ends. If it lacks a
    seat, the request that the victim plugin names pauses, and keeps its blocks until another
    request lacks them. If it lacks blocks, that request is preempted without them. The victim
    has to be strictly less urgent, and the urgent request certain to be admitted then.
    ``scheduler.max_policy_preemptions`` bounds the policy preemptions of a request. The victim
    costs O(running), in a step in which something has changed.
    """

    name = "priority"
    default_victim = "lowest-priority"
    Options = Options

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        if not options.preempts:
            self.idle_methods = ("preempts",)

    def key(self, request: RequestView) -> Key:
        if self.ctx.compat.orders_equals_by_id:
            return (request.priority, request.arrival_time, _as_number(request.request_id))
        return (request.priority, request.arrival_time)

    def preempts(self, waiting: RequestView, running: RequestView) -> bool:
        return waiting.priority < running.priority


def _as_number(request_id: str) -> int:
    """A number that orders as the id does (in its first 64 bytes)."""
    return int.from_bytes(request_id.encode().ljust(64, b"\0")[:64], "big")
