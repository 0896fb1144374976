"""Earliest deadline first, the lost last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING

from attrs import Factory, define, frozen

from batchwright.option import option
from batchwright.protocols import SchedulingPolicy
from batchwright.verdicts import Preempt
from batchwright_plugins.policy.patient_queue import PatientQueue

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["Edf"]


def _times(_instance: object, _field: object, targets: Mapping[str, float]) -> None:
    for slo_class, seconds in targets.items():
        if seconds < 0:
            raise ValueError(f"expected seconds >= 0, got {seconds!r} for {slo_class!r}")


@frozen
class Options:
    """Options of edf."""

    targets: Mapping[str, float] = option(
        Factory(dict),
        "Time from arrival to the first token, by slo_class (seconds).",
        default_text="none",
        check=_times,
    )
    default_target: float | None = option(
        None,
        "Time from arrival to the first token, for all other requests.",
        unit="seconds",
        default_text="it has no deadline",
        ge=0,
    )
    relegate: bool = option(
        True, "True to put requests that are certain to miss their deadline behind all others."
    )
    prefill_time: float = option(0.0, "Estimated time of a prompt token.", unit="seconds", ge=0)
    decode_time: float = option(0.03, "Estimated time of an output token.", unit="seconds", ge=0)
    max_wait: float | None = option(
        None,
        "Time in the queue after which a request is next, late or not.",
        unit="seconds",
        default_text="no bound",
        ge=0,
    )


@define
class Outlook:
    """A deadline that may be out of reach."""

    is_lost: bool = False


class Edf(SchedulingPolicy):
    """Earliest deadline first, without time for deadlines that cannot be met.

    A request's ``deadline`` is for its whole answer. Without one, its ``slo_class`` has a
    target for its first token, at ``arrival_time + targets[slo_class]``. Without either, the
    request goes behind those that have a deadline. EDF meets every deadline that can be met on
    one server (Liu and Layland 1973). Past saturation it serves requests that are just too
    late, and so makes all of them late. Here a clock timer is set for the last moment at which
    a request could still be in time: ``deadline - prompt tokens * prefill_time - predicted
    output tokens that are left * decode_time`` (the last term for whole answers). A request
    that is late then goes behind all others. If it runs, it pauses while others wait for a
    seat: relegation, as in Niyama (Goel et al. 2025) and QoServe.

    Starves late requests, and those without a deadline, while others that are in time keep
    coming. ``max_wait``, if given, bounds the wait. O(log waiting), one timer a request; O(late
    running requests) in a step in which something changed.
    """

    name = "edf"
    Data = Outlook
    Options = Options

    def make_queue(self) -> PatientQueue:
        self._lost_running: dict[RequestView, None] = {}
        if not self.options.relegate:
            self.idle_methods = (
                "on_add",
                "on_admit",
                "on_preempt",
                "on_finish",
                "running_to_preempt",
            )
        return PatientQueue(self.key, self.ctx, self.options.max_wait)

    def key(self, request: RequestView) -> Key:
        return int(self._is_lost(request)), self.deadline(request)

    def deadline(self, request: RequestView) -> float:
        """Return the time at which a request is due (seconds on the clock); infinity: never."""
        if request.deadline is not None:
            return request.deadline
        target = self.options.targets.get(request.slo_class, self.options.default_target)
        return inf if target is None else request.arrival_time + target

    def on_add(self, request: RequestView) -> None:
        if self.deadline(request) < inf:
            self.on_timer(request)

    def on_timer(self, payload: RequestView) -> None:
        if payload.finish is not None or self._is_served_in_time(payload):
            return
        last_moment = self.deadline(payload) - self._time_left(payload)
        if self.ctx.clock.now() <= last_moment:
            self.ctx.call_at(last_moment, payload)
            return
        self.ctx.data(payload).is_lost = True
        self.queue.rekey(payload)
        if payload in self.ctx.view.running:
            self._lost_running[payload] = None

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        if self._is_lost(request):
            self._lost_running[request] = None

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self._lost_running.pop(request, None)

    def on_finish(self, request: RequestView) -> None:
        self._lost_running.pop(request, None)

    def running_to_preempt(self, view: StepView) -> Iterator[Preempt]:
        if not self._lost_running:
            return
        num_free = self.ctx.sizes.max_num_seqs - view.num_running
        lost = list(self._lost_running)
        without_seat = self.queue.first(num_free + len(lost))[num_free:]
        for waiting, running in zip(without_seat, reversed(lost), strict=False):
            if self._is_lost(waiting):
                return
            yield Preempt(running, keep_blocks=True)

    def _is_lost(self, request: RequestView) -> bool:
        return bool(self.ctx.data(request).is_lost)

    def _is_served_in_time(self, request: RequestView) -> bool:
        """Return True if its first token was all that was due, and exists."""
        return request.deadline is None and request.num_output_tokens > 0

    def _time_left(self, request: RequestView) -> float:
        """Seconds that a request would take from now on, if it were served at once."""
        outputs = request.num_output_tokens
        left: float = 0.0 if outputs else request.num_prompt_tokens * self.options.prefill_time
        if request.deadline is not None:
            (total,) = self.ctx.predict(request)
            left += max(0.0, total - outputs) * self.options.decode_time
        return left
