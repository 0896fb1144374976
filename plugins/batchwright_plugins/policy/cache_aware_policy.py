"""What policies share that order by what is cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batchwright.protocols import SchedulingPolicy
from batchwright_plugins.policy.hit_watch import HitWatch

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["CacheAwarePolicy"]


class CacheAwarePolicy(SchedulingPolicy):
    """Keeps keys current that depend on ``watch.hit(request)``.

    Hits are looked at when a request is queued, and when another one that begins with the
    same tokens is admitted or has computed its prompt.
    """

    def __init__(self, options: Any, ctx: Any) -> None:
        self.watch = HitWatch(ctx)
        super().__init__(options, ctx)

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self.watch.drop(request)
        self._wake(request)
        self.ctx.mark(request, at_computed=request.num_tokens)

    def on_mark(self, request: RequestView, payload: Any) -> None:
        self._wake(request)

    def on_finish(self, request: RequestView) -> None:
        self.watch.drop(request)

    def has_moved(self, request: RequestView) -> None:
        """Give a waiting request the place that its hit, looked at anew, asks for."""
        self.queue.rekey(request)

    def _wake(self, request: RequestView) -> None:
        for waiting in self.watch.woken_by(request):
            before = self.watch.hit(waiting)
            if self.watch.look(waiting) != before:
                self.has_moved(waiting)
