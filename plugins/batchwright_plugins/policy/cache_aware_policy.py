"""The base of policies that order by cached tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from batchwright.protocols import SchedulingPolicy
from batchwright_plugins.policy.hit_watch import HitWatch, Watched

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["CacheAwarePolicy"]

MAX_LOOKS = 8
"""In one go; those whose hits shrank later are found later."""


class CacheAwarePolicy(SchedulingPolicy):
    """Keep keys current that depend on ``watch.hit(request)``.

    Hits are looked at when a request is queued, and when another one that begins with the
    same tokens is admitted or has computed its prompt. What was evicted meanwhile shows when
    a request is first: a queue that wants to know asks ``fresh_head``.
    """

    Data = Watched

    def __init__(self, options: Any, ctx: Any) -> None:
        self.watch = HitWatch(ctx)
        super().__init__(options, ctx)

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self.watch.drop(request)
        self._wake(request)
        self.ctx.call_at_tokens(request, num_computed_tokens=request.num_tokens)

    def on_tokens(self, request: RequestView, payload: Any) -> None:
        self._wake(request)

    def on_finish(self, request: RequestView) -> None:
        self.watch.drop(request)

    def fresh_head(self, peek: Callable[[], RequestView | None]) -> RequestView | None:
        """Return the first request of the queue whose known hit still exists.

        Args:
            peek: Returns the first request.
        """
        head = peek()
        for _ in range(MAX_LOOKS):
            if head is None or not self.watch.has_shrunk(head):
                break
            self.watch.look(head)
            self.has_moved(head)
            head = peek()
        return head

    def has_moved(self, request: RequestView) -> None:
        """Give a waiting request the place that its hit, looked at anew, asks for."""
        self.queue.rekey(request)

    def _wake(self, request: RequestView) -> None:
        for waiting in self.watch.woken_by(request):
            before = self.watch.hit(waiting)
            if self.watch.look(waiting) != before:
                self.has_moved(waiting)
