"""End requests that have waited too long."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from attrs import Factory, define, frozen

from batchwright.number_bounds import MAX_SECONDS, shown
from batchwright.option import option
from batchwright.protocols import Gate
from batchwright.verdicts import ADMIT, Reject, Verdict

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["QueueTimeout"]

HINT = "queue_timeout"


def _times(_instance: object, _field: object, classes: Mapping[str, float]) -> None:
    for slo_class, seconds in classes.items():
        if seconds < 0:
            raise ValueError(f"expected seconds >= 0, got {seconds!r} for {slo_class!r}")


@frozen
class Options:
    """Options of the queue timeout."""

    seconds: float | None = option(
        None, "Longest wait for the first admission.", unit="seconds", default_text="no bound", ge=0
    )
    classes: Mapping[str, float] = option(
        Factory(dict), "Longest wait by slo_class (seconds).", default_text="none", check=_times
    )


@define
class Deadline:
    """The time when a wait is over, and its length (seconds)."""

    bound: tuple[float, float] | None = None


class QueueTimeout(Gate):
    """End a request with an error if it waits too long for its first admission.

    The tightest of three bounds counts: ``seconds``, ``classes[slo_class]``, and the request's
    own, ``hints = {"queue_timeout": seconds}``. A request that was admitted once is never
    ended, though it waits again after a preemption. The bound holds for requests deep in the
    queue and for those that wait for a key, too, by one clock timer a request, O(log n). Time
    counts from when the request was added.
    """

    name = "queue-timeout"
    Data = Deadline
    Options = Options

    def pre_enqueue(self, request: RequestView) -> Verdict:
        own = request.hints.get(HINT)
        if own is None or (
            isinstance(own, int | float) and (0 <= own <= MAX_SECONDS or own == inf)
        ):
            return ADMIT
        expected = f"a number of seconds from 0 to {MAX_SECONDS}, or infinite"
        return Reject(f"hints.{HINT} must be {expected}, not {shown(own)}")

    def on_add(self, request: RequestView) -> None:
        bounds = (
            self.options.seconds,
            self.options.classes.get(request.slo_class),
            request.hints.get(HINT),
        )
        given = [float(bound) for bound in bounds if bound is not None and bound < inf]
        if given:
            due = self.ctx.clock.now() + min(given)
            self.ctx.data(request).bound = (due, min(given))
            self.ctx.call_at(due, request)

    def pre_filter(self, request: RequestView, view: StepView) -> Verdict:
        return Reject(self._reason(request)) if self._is_over(request) else ADMIT

    def on_timer(self, payload: RequestView) -> None:
        if self._is_over(payload):
            self.ctx.end(payload, f"gate {self.name!r}: {self._reason(payload)}")

    def _is_over(self, request: RequestView) -> bool:
        bound = self.ctx.data(request).bound
        waits = request.finish is None and request.scheduled_time is None
        return waits and bound is not None and self.ctx.view.now >= bound[0]

    def _reason(self, request: RequestView) -> str:
        return f"waited {self.ctx.data(request).bound[1]:g} s without a first admission"
