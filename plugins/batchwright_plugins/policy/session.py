"""Conversations whose prefix is still warm first."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from attrs import define, frozen

from batchwright.option import option
from batchwright.protocols import SchedulingPolicy
from batchwright_plugins.policy.patient_queue import PatientQueue

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView

__all__ = ["Session"]


@frozen
class Options:
    """Options of session."""

    warm_time: float = option(
        60.0,
        "Time after the last service of a group for which its prefix counts as cached.",
        unit="seconds",
        ge=0,
    )
    max_wait: float | None = option(
        10.0,
        "Time in the queue after which a request is next, cached or not.",
        unit="seconds",
        default_text="10; none: no bound",
        ge=0,
    )


@define
class Warmth:
    """Warmth of the group of a waiting request ; None: not known."""

    is_warm: bool | None = None


class Session(SchedulingPolicy):
    """The next request of a group (a conversation, a program) first, while it is warm.

    A group is warm for ``warm_time`` after a request of it was admitted or ended. Its next turn
    then finds the KV of earlier turns, which other requests would evict. Waiting requests of
    the group are warm from then on as well, and a clock timer is set for the end of that time.
    Of warm requests, and of the others, the order is first come, first served. The cache evicts
    the least recently used prefixes first, so the most recent ones can still be hit.
    CachedAttention (Gao et al. 2024) keeps this locality by fetching and Preble (Srivatsa et
    al. 2025) by routing; here the order does.

    Starves first requests, and groups that are no longer warm, while warm groups keep coming.
    ``max_wait`` bounds the wait of a request before it is next. ``warm_time`` beyond
    ``scheduler.group_time_to_live`` has no effect. O(log waiting), times the waiting requests
    of a group that becomes warm.
    """

    name = "session"
    Data = Warmth
    Options = Options

    def make_queue(self) -> PatientQueue:
        self._waiting: dict[str, dict[RequestView, None]] = {}
        return PatientQueue(self.key, self.ctx, self.options.max_wait)

    def key(self, request: RequestView) -> Key:
        if self.ctx.data(request).is_warm is None:
            self.ctx.data(request).is_warm = self._is_warm(request)
        return 0 if self.ctx.data(request).is_warm else 1

    def on_add(self, request: RequestView) -> None:
        if request.group is not None and request.finish is None:
            self._waiting.setdefault(request.group, {})[request] = None

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._leaves(request)
        self.ctx.data(request).is_warm = None  # if it comes back, its group has been served
        self._served(request)

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self.on_add(request)

    def on_finish(self, request: RequestView) -> None:
        self._leaves(request)
        if request.scheduled_time is not None:
            self._served(request)

    def on_timer(self, payload: RequestView) -> None:
        if payload in self._waiting.get(payload.group or "", ()):
            self.ctx.data(payload).is_warm = self._is_warm(payload)
            self.queue.rekey(payload)

    def _is_warm(self, request: RequestView) -> bool:
        """Return True if a waiting request's group is warm, and set a timer for its end."""
        if request.group is None:
            return False
        served: float | None = self.ctx.group(request.group).get("served")
        if served is None or self.ctx.clock.now() >= served + self.options.warm_time:
            return False
        if self.options.warm_time < inf:
            self.ctx.call_at(served + self.options.warm_time, request)
        return True

    def _served(self, request: RequestView) -> None:
        """Note when a request's group was served; those of it that wait are warm now."""
        if request.group is None:
            return
        self.ctx.group(request.group)["served"] = self.ctx.clock.now()
        for waiting in self._waiting.get(request.group, ()):
            if not self.ctx.data(waiting).is_warm:
                self.ctx.data(waiting).is_warm = self._is_warm(waiting)
                self.queue.rekey(waiting)

    def _leaves(self, request: RequestView) -> None:
        members = self._waiting.get(request.group or "", {})
        members.pop(request, None)
        if request.group is not None and not members:
            self._waiting.pop(request.group, None)
