"""A window of a recorded run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy

from attrs import define, field, frozen

from batchwright.exceptions import ConfigError
from batchwright_lab.recording.spans import Event, RequestEnd, Span, Step

__all__ = ["Picture", "Row", "Window", "look"]


@frozen
class Window:
    """The part of a run that is shown: some steps, or some seconds.

    Args:
        first: Its first step; None: it is given in seconds.
        last: Its last step.
        begin: Its begin (seconds).
        end: Its end (seconds).
    """

    first: int | None = None
    last: float = math.inf
    begin: float = 0.0
    end: float = math.inf


@define
class Row:
    """A request within a window.

    Args:
        request_id: Its id.
        spans: Its spans in order of time, cut at the ends of the window.
        ends: Its end in the window; empty if there is none.
        first_token: When its first token was there (seconds), if that was within.
    """

    request_id: str
    spans: list[Span] = field(factory=list)
    ends: list[RequestEnd] = field(factory=list)
    first_token: float | None = None

    def until(self, end: float) -> Row:
        """This row, cut at a moment."""
        spans = [span for span in self.spans if span.begin < end]
        for span in spans:
            span.end = end if span.end is None else min(span.end, end)
        ends = [found for found in self.ends if found.time <= end]
        first = self.first_token
        return Row(self.request_id, spans, ends, None if first and first > end else first)


@define
class Picture:
    """The content of a window.

    Args:
        begin: Its begin (seconds).
        end: Its end (seconds).
        rows: Requests that live in it, in order of arrival.
        steps: Steps that begin in it.
        before: The step before those, or None.
    """

    begin: float
    end: float
    rows: list[Row]
    steps: list[Step]
    before: Step | None


@define
class _Look:
    """Take in events; keep what falls into the window."""

    window: Window
    begin: float | None = None
    end: float = 0.0
    last_step: int = -1
    is_over: bool = False
    before: Step | None = None
    steps: list[Step] = field(factory=list)
    rows: dict[int, Row] = field(factory=dict)
    open: dict[str, Span] = field(factory=dict)
    numbers: dict[str, int] = field(factory=dict)
    num_requests: int = 0
    has_token: set[int] = field(factory=set)

    def take(self, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, Step):
            self._take_step(event)
        elif isinstance(event, RequestEnd):
            number = self.numbers.pop(event.request_id)
            if self._sees(event.time):
                self._row(event.request_id, number).ends.append(event)
        elif event.end is None:
            self.open[event.request_id] = event
            if event.request_id not in self.numbers:
                self.numbers[event.request_id] = self.num_requests
                self.num_requests += 1
        else:
            self.open.pop(event.request_id, None)
            self._take_span(event)

    def picture(self) -> Picture | None:
        """All that was seen; None if the window never began."""
        if self.begin is None:
            return None
        end = min(self.end, self.window.end)
        for span in list(self.open.values()):
            cut = copy(span)
            cut.end = end
            self._take_span(cut)
        rows = [self.rows[number].until(end) for number in sorted(self.rows)]
        return Picture(self.begin, end, [row for row in rows if row.spans], self.steps, self.before)

    def _take_step(self, step: Step) -> None:
        window = self.window
        if step.end is not None:
            self.end = max(self.end, step.end)
            return
        self.last_step = step.step
        if step.step > window.last or step.begin >= window.end:
            self.is_over, self.end = True, min(step.begin, window.end)
            return
        has_begun = (
            step.begin >= window.begin if window.first is None else step.step >= window.first
        )
        if has_begun:
            if self.begin is None:
                self.begin = step.begin if window.first is not None else window.begin
            self.steps.append(step)
        else:
            self.before = step

    def _sees(self, time: float) -> bool:
        return self.begin is not None and time >= self.begin

    def _take_span(self, span: Span) -> None:
        assert span.end is not None, "it is over"
        number = self.numbers.get(span.request_id)
        if number is None:
            return
        is_first = span.kind == "decode" and number not in self.has_token
        if is_first:
            self.has_token.add(number)
        if self.begin is None or span.end < self.begin:
            return
        row = self._row(span.request_id, number)
        if is_first and span.begin >= self.begin and row.spans:
            row.first_token = row.spans[-1].end
        cut = copy(span)
        cut.begin = max(span.begin, self.begin)
        row.spans.append(cut)

    def _row(self, request_id: str, number: int) -> Row:
        return self.rows.setdefault(number, Row(request_id))


def look(lines: Iterable[list[Event]], window: Window) -> Picture:
    """Look at a window of a run; reads on only as far as it goes.

    Raises:
        ConfigError: Nothing happens in it; says what the log has.
    """
    seen = _Look(window)
    for events in lines:
        for event in events:
            seen.take(event)
        if seen.is_over:
            break
    picture = seen.picture()
    if picture is None or not picture.rows or picture.end <= picture.begin:
        has = f"steps 0 to {seen.last_step}, and goes up to {seen.end:g} s"
        if seen.last_step < 0:
            has = "no step"
        raise ConfigError(f"nothing happens in that window: the log has {has}")
    return picture
