"""Spans of time of requests, from a decision log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

if TYPE_CHECKING:
    from batchwright_plugins.observer.decision_trail import DecisionTrail

__all__ = ["KINDS", "RequestEnd", "Span", "Spans", "Step", "gist"]

KINDS: Final = ("queued", "prefill", "recompute", "decode", "stalled", "paused", "preempted")
"""Kinds of spans of a request: it waits; its prompt is computed; tokens lost by a preemption are
computed again; it decodes; it runs without scheduled tokens; it keeps its blocks without a seat; it
waits without blocks."""
_WAITING: Final = ("queued", "paused", "preempted")
_NUMBERS: Final = re.compile(r"\d+")


@define
class Span:
    """A request does one thing for some time.

    Args:
        request_id: Whose.
        kind: One of ``KINDS``.
        begin: When it began (seconds).
        end: When it ended (seconds); None while it goes on.
        reason: Reason of its wait; the request that preempted it; empty if there is none.
        num_tokens: Scheduled tokens in it.
        step: The step in which it began; None: between steps.
    """

    request_id: str
    kind: str
    begin: float
    end: float | None = None
    reason: str = ""
    num_tokens: int = 0
    step: int | None = None


@frozen
class RequestEnd:
    """A request has ended.

    Args:
        request_id: Its id.
        time: When (seconds).
        reason: ``stop``, ``length``, ``abort`` or ``error``.
        detail: Exact cause of its end.
    """

    request_id: str
    time: float
    reason: str
    detail: str


@define
class Step:
    """A step.

    Args:
        step: Its id.
        begin: When it was planned (seconds).
        end: When its results were there (seconds); None until then.
        num_tokens: Its scheduled tokens.
        num_running: Requests that ran.
        num_waiting: Requests that waited.
        num_free_blocks: Blocks that were free behind it.
    """

    step: int
    begin: float
    end: float | None
    num_tokens: int
    num_running: int
    num_waiting: int
    num_free_blocks: int


Event = Span | RequestEnd | Step


@define
class _Live:
    """The current span of a request.

    Args:
        span: Since when.
        num_admissions: Number of its admissions.
        has_caught_up: True once all its known tokens were computed.
    """

    span: Span
    num_admissions: int = 0
    has_caught_up: bool = False


@define
class Spans:
    """Follow a log; memory as requests live at a time, whatever its length."""

    _live: dict[str, _Live] = field(init=False, factory=dict)
    _step: Step | None = field(init=False, default=None)
    _done: float = field(init=False, default=0.0)
    """When the last step that is done was (seconds)."""
    _untold: dict[int, Span] = field(init=False, factory=dict)
    """Spans that began with the line at hand, by the id of the object."""

    def of(self, trails: Iterable[DecisionTrail]) -> Iterator[list[Event]]:
        """Yield the events of each line of a log: spans that began, and spans that ended.

        A span or a step comes twice, as the same object: without an end when it begins,
        with one when it is over.
        """
        time = 0.0
        for trail in trails:
            time = trail.time
            events: list[Event] = [*self._finish_step(dict(trail.done), time)]
            events += self._take_ends(trail)
            self._take_arrivals(trail)
            if trail.is_step:
                events += self._take_step(trail)
            events += self._untold.values()
            self._untold.clear()
            yield events
        yield [*self._finish_step({}, time), *self._close(time)]

    def _close(self, time: float) -> Iterator[Event]:
        for live in self._live.values():
            yield from self._over(live.span, time)

    def _finish_step(self, done: Mapping[int, float], time: float) -> Iterator[Event]:
        """The step before is done: when it says so, or else now."""
        step, self._step = self._step, None
        if step is not None:
            step.end = self._done = done.get(step.step, time)
            yield step

    def _take_ends(self, trail: DecisionTrail) -> Iterator[Event]:
        for request_id, (reason, detail, *_) in trail.ended.items():
            if request_id not in self._live:
                continue
            time = self._done if reason in ("stop", "length") else trail.time
            yield from self._over(self._live.pop(request_id).span, time)
            yield RequestEnd(request_id, time, reason, detail)

    def _take_arrivals(self, trail: DecisionTrail) -> None:
        for request_id, (_, _, arrival) in trail.added.items():
            begin = min(arrival, trail.time)
            self._live[request_id] = _Live(self._begin(request_id, "queued", begin, trail))

    def _begin(
        self, request_id: str, kind: str, begin: float, trail: DecisionTrail, reason: str = ""
    ) -> Span:
        span = Span(request_id, kind, begin, reason=reason, step=trail.step)
        self._untold[id(span)] = span
        return span

    def _take_step(self, trail: DecisionTrail) -> Iterator[Event]:
        assert trail.step is not None, "it is one"
        for request_id, needy in trail.preempted.items():
            yield from self._turn(request_id, "preempted", trail, _for_request(request_id, needy))
        for request_id, reason in trail.new_reasons.items():
            if request_id in trail.waiting:
                yield from self._wait(request_id, reason, trail)
        for request_id in trail.running:
            yield from self._run(request_id, trail)
        sizes = (sum(trail.grants.values()), len(trail.running), len(trail.waiting))
        self._step = Step(trail.step, trail.time, None, *sizes, trail.num_free_blocks)
        yield self._step

    def _wait(self, request_id: str, reason: str, trail: DecisionTrail) -> Iterator[Event]:
        span = self._live[request_id].span
        if span.kind not in _WAITING:
            kind = "preempted" if "(executor)" in reason else "paused"
            yield from self._turn(request_id, kind, trail, reason)
        elif span.kind == "queued" and id(span) in self._untold:
            span.reason = reason
        elif span.kind == "queued" and gist(span.reason) != gist(reason):
            yield from self._turn(request_id, "queued", trail, reason)

    def _run(self, request_id: str, trail: DecisionTrail) -> Iterator[Event]:
        live, granted = self._live[request_id], trail.grants.get(request_id, 0)
        if request_id in trail.admitted:
            live.num_admissions += 1
            live.has_caught_up = False
        kind = self._kind(live, granted, trail.owed.get(request_id, 1))
        if kind != live.span.kind or kind in ("prefill", "recompute"):  # a span a chunk
            yield from self._turn(request_id, kind, trail)
        live.span.num_tokens += granted

    @staticmethod
    def _kind(live: _Live, granted: int, owed: int) -> str:
        """Return the kind of work of a running request in a step."""
        if not granted:
            return "stalled"
        is_decode = live.has_caught_up or (live.num_admissions > 1 and owed == 1)
        live.has_caught_up = live.has_caught_up or granted >= owed
        return "decode" if is_decode else "recompute" if live.num_admissions > 1 else "prefill"

    def _turn(
        self, request_id: str, kind: str, trail: DecisionTrail, reason: str = ""
    ) -> Iterator[Event]:
        """A request does something else from this step on."""
        live = self._live[request_id]
        yield from self._over(live.span, trail.time)
        live.span = self._begin(request_id, kind, trail.time, trail, reason)

    def _over(self, span: Span, time: float) -> Iterator[Event]:
        """Yield the span that has ended; work of steps ends when the last one is done."""
        end = time if span.kind in _WAITING else self._done
        if self._untold.pop(id(span), None) is not None:
            if end <= span.begin:
                return  # it began and was over with the same line, in no time
            yield copy(span)
        span.end = max(span.begin, end)
        yield span


def gist(reason: str) -> str:
    """A reason without its numbers, which may change from step to step."""
    return _NUMBERS.sub("", reason)


def _for_request(request_id: str, needy: str | None) -> str:
    if needy is None:
        return "gave up its blocks"
    own = needy == request_id
    return "no block for its own next tokens" if own else f"request {needy!r} needed its blocks"
