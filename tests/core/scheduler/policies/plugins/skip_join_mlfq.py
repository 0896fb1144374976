"""Skip-join multi-level feedback queue (FastServe, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from attrs import frozen

from batchwright import RequestView, SchedulingPolicy, StepView, hookimpl
from batchwright.option import option
from batchwright.verdicts import Pause


@frozen
class Options:
    """Options of the policy."""

    quantum: int = option(64, "Tokens computed on the first level.", unit="tokens", ge=1)
    levels: int = option(6, "Each level's quantum is twice that of the one before.", ge=1)


class SkipJoinMLFQ(SchedulingPolicy):
    """Short work first, without knowing what is short.

    A request joins the level whose quantum its prompt fits into, skipping those above.
    Whoever has used up its quantum goes to the end of the next level, in the middle of
    its decode, and pauses while somebody above it waits.
    """

    name = "skip-join-mlfq"
    Options = Options

    def setup(self) -> None:
        self._serial = count()

    def key(self, request: RequestView) -> tuple[float, ...]:
        if request.state[self.ctx.slot] is None:
            self._join(request)
        place: tuple[int, int] = request.state[self.ctx.slot]
        return place

    def on_mark(self, request: RequestView, level: int) -> None:
        self._enter(request, level + 1)
        self.queue.rekey(request)

    def yield_running(self, view: StepView) -> Iterator[Pause]:
        seats, most = self.ctx.limits.max_num_seqs, self.ctx.limits.max_displacements
        without_seat = self.queue.first(seats)[seats - view.num_running :]
        movable = [r for r in view.running if r.num_displacements < most]
        last_first = sorted(movable, key=self.key, reverse=True)
        for waiting, running in zip(without_seat, last_first, strict=False):
            if self.key(waiting) < self.key(running):
                yield Pause(running)

    def _join(self, request: RequestView) -> None:
        quanta = [self.options.quantum << level for level in range(self.options.levels)]
        fitting = [i for i, quantum in enumerate(quanta) if request.num_prompt_tokens <= quantum]
        self._enter(request, min(fitting, default=self.options.levels - 1))

    def _enter(self, request: RequestView, level: int) -> None:
        request.state[self.ctx.slot] = (level, next(self._serial))
        if level + 1 < self.options.levels:
            used_up = request.num_computed_tokens + (self.options.quantum << level)
            self.ctx.mark(request, at_computed=used_up, payload=level)


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    """Offer the policy."""
    return [SkipJoinMLFQ]
