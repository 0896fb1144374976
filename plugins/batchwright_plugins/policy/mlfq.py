"""A multi-level feedback queue that skips levels by prompt length."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from attrs import define, frozen

from batchwright.option import option
from batchwright_plugins.policy.patient_queue import PatientQueue
from batchwright_plugins.policy.pausing_policy import PausingPolicy

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView

__all__ = ["Mlfq"]


@frozen
class Options:
    """Options of mlfq."""

    quantum: int = option(
        512,
        "Tokens computed on the first level; each level has twice those of the one before.",
        unit="tokens",
        ge=1,
    )
    levels: int = option(
        4, "Number of levels; on the last one a request stays.", unit="levels", ge=1, le=32
    )
    max_wait: float | None = option(
        60.0,
        "Time in the queue after which a request is next, on any level.",
        unit="seconds",
        default_text="60; none: no bound",
        ge=0,
    )


@define
class Standing:
    """The level of a request, and its number in it."""

    place: tuple[int, int] | None = None


class Mlfq(PausingPolicy):
    """Short work first, without known lengths: a skip-join feedback queue.

    Level i has a quantum of ``quantum * 2**i`` tokens. A request joins the first level whose
    quantum is at least its prompt. When it has computed that level's quantum of tokens, it goes
    to the end of the next level, in the middle of its decode (a token timer calls, no step
    asks). It pauses while a request of a lower level waits for a seat. See FastServe (Wu et al.
    2023, section 4.1), with tokens for time.

    Starves long requests while short ones keep coming. ``max_wait`` bounds the wait of a
    request before it is next (FastServe's promotion). O(log waiting); O(running) in a step in
    which a request may have to pause.
    """

    name = "mlfq"
    Data = Standing
    Options = Options

    def make_queue(self) -> PatientQueue:
        return PatientQueue(self.key, self.ctx, self.options.max_wait)

    def setup(self) -> None:
        self._serial = count()

    def key(self, request: RequestView) -> Key:
        if self.ctx.data(request).place is None:
            self._enter(request, self._first_level(request))
        place: tuple[int, int] = self.ctx.data(request).place
        return place

    def on_tokens(self, request: RequestView, level: int) -> None:
        self._enter(request, level + 1)
        self.queue.rekey(request)
        self.has_worsened(request)

    def _first_level(self, request: RequestView) -> int:
        num_quanta = -(-request.num_prompt_tokens // self.options.quantum)
        level: int = (num_quanta - 1).bit_length()
        last: int = self.options.levels - 1
        return min(level, last)

    def _enter(self, request: RequestView, level: int) -> None:
        self.ctx.data(request).place = (level, next(self._serial))
        if level + 1 < self.options.levels:
            used_up = request.num_computed_tokens + (self.options.quantum << level)
            self.ctx.call_at_tokens(request, num_computed_tokens=used_up, payload=level)
