"""Earliest deadline first; who is lost already goes behind all others (Niyama, QoServe)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from attrs import frozen

from batchwright import RequestView, SchedulingPolicy, StepView, hookimpl
from batchwright.option import option
from batchwright.verdicts import Pause


@frozen
class Options:
    """Options of the policy."""

    prefill_time: float = option(0.0, "For a prompt.", unit="seconds", ge=0)
    decode_time: float = option(0.03, "For an output token.", unit="seconds", gt=0)


class RelegatingEDF(SchedulingPolicy):
    """Earliest deadline first, without wasting time on deadlines that cannot be met.

    An alarm rings for each request at the last moment at which it can still make it, and
    once more at a later one if it was served meanwhile. Plain EDF under overload serves
    those that are just too late, and so makes all others late too.
    """

    name = "relegating-edf"
    Options = Options

    def key(self, request: RequestView) -> tuple[float, ...]:
        deadline = inf if request.deadline is None else request.deadline
        return int(self._is_lost(request)), deadline

    def on_add(self, request: RequestView) -> None:
        if request.deadline is not None:
            self.on_alarm(request)

    def on_alarm(self, request: RequestView) -> None:
        if request.finish is not None or request.deadline is None:
            return
        (output_tokens,) = self.ctx.predict(request)
        left = max(0.0, output_tokens - request.num_output_tokens) * self.options.decode_time
        left += 0.0 if request.num_output_tokens else self.options.prefill_time
        last_moment = request.deadline - left
        if self.ctx.clock.now() <= last_moment:
            self.ctx.alarm(last_moment, request)
            return
        request.state[self.ctx.slot] = True
        self.queue.rekey(request)

    def yield_running(self, view: StepView) -> Iterator[Pause]:
        seats = self.ctx.limits.max_num_seqs
        without_seat = self.queue.first(seats)[seats - view.num_running :]
        lost = [request for request in view.running if self._is_lost(request)]
        for waiting, running in zip(without_seat, lost, strict=False):
            if not self._is_lost(waiting):
                yield Pause(running)

    def _is_lost(self, request: RequestView) -> bool:
        return request.state[self.ctx.slot] is True


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    """Offer the policy."""
    return [RelegatingEDF]
