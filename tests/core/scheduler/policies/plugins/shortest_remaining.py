"""Shortest remaining processing time, with pausing."""

from __future__ import annotations

from collections.abc import Iterator

from batchwright import RequestView, SchedulingPolicy, StepView, hookimpl
from batchwright.verdicts import Pause


class ShortestRemaining(SchedulingPolicy):
    """Who is predicted to be done soonest goes first; longer ones pause for shorter ones."""

    name = "shortest-remaining"

    def key(self, request: RequestView) -> float:
        (output_tokens,) = self.ctx.predict(request)
        return output_tokens - request.num_output_tokens

    def yield_running(self, view: StepView) -> Iterator[Pause]:
        seats, most = self.ctx.limits.max_num_seqs, self.ctx.limits.max_displacements
        without_seat = self.queue.first(seats)[seats - view.num_running :]
        movable = [r for r in view.running if r.num_displacements < most]
        longest_first = sorted(movable, key=self.key, reverse=True)
        for waiting, running in zip(without_seat, longest_first, strict=False):
            if self.key(waiting) < self.key(running):
                yield Pause(running)


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    """Offer the policy."""
    return [ShortestRemaining]
