"""A decision log as trace events, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import IO, Any, Final

from batchwright_lab.recording.spans import Event, RequestEnd, Span, Step

__all__ = ["TraceWriter"]

_SCHEDULER: Final = 1
_REQUESTS: Final = 2
_STEPS: Final = _SCHEDULER
"""The track of the steps: its process's main one."""
_FIRST_REQUEST: Final = 3
_MICRO: Final = 1e6
_time_of = itemgetter("ts")


class TraceWriter:
    """Write trace events in order of time; memory as requests live at a time.

    A track a request, one for the steps, and counters. Google's "Trace Event Format": ``B``
    and ``E`` are the ends of a slice, ``C`` is a counter, ``i`` an instant, ``M`` a name.

    Perfetto's importer asks for more than the format does. It finds a track's name by the
    track's number alone, so that no two have the same; calls a counter by its event's name
    and its argument's; and keeps nanoseconds.

    Args:
        file: The output file.
        num_blocks: KV blocks that requests can hold.
        name: Of the run, for people.

    Attributes:
        num_events: The name as written.
    """

    def __init__(self, file: IO[str], num_blocks: int, name: str) -> None:
        self.num_events = 0
        self._file = file
        self._num_blocks = num_blocks
        self._name = name
        self._tracks: dict[str, int] = {}
        self._next_track = _FIRST_REQUEST
        self._counts: dict[str, dict[str, int]] = {}

    def write(self, lines: Iterable[list[Event]]) -> None:
        """Write all of a log, from what ``Spans.of`` says."""
        last = 0.0
        self._file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        for name in self._names():
            self._put(name)
        for events in lines:
            found = [trace for event in events for trace in self._trace(event)]
            found.sort(key=_time_of)
            for trace in found:
                last = trace["ts"] = max(last, trace["ts"])  # a request may say it came earlier
                self._put(trace)
        self._file.write("\n]}\n")

    def _put(self, trace: dict[str, Any]) -> None:
        self._file.write(",\n" if self.num_events else "")
        self._file.write(json.dumps(trace, separators=(",", ":"), ensure_ascii=False))
        self.num_events += 1

    def _names(self) -> Iterator[dict[str, Any]]:
        yield _name("process_name", _SCHEDULER, _STEPS, f"scheduler ({self._name})")
        yield _name("process_name", _REQUESTS, _REQUESTS, "requests")
        yield _name("thread_name", _SCHEDULER, _STEPS, "steps")

    def _trace(self, event: Event) -> Iterator[dict[str, Any]]:
        if isinstance(event, Step):
            yield from self._trace_step(event)
            return
        if event.request_id not in self._tracks:
            yield from self._new_track(event)
        track = self._tracks[event.request_id]
        if isinstance(event, RequestEnd):
            del self._tracks[event.request_id]  # its id may be used again
            title = f"{event.reason} ({event.detail})" if event.detail else event.reason
            yield {**_event("i", event.time, _REQUESTS, track), "name": title, "s": "t"}
        elif event.end is None:
            args = {"reason": event.reason} if event.reason else {}
            begin = _event("B", event.begin, _REQUESTS, track)
            yield {**begin, "name": _title(event), "args": args}
        else:
            tokens = {"tokens": event.num_tokens} if event.num_tokens else {}
            yield {**_event("E", event.end, _REQUESTS, track), "args": tokens}

    def _trace_step(self, step: Step) -> Iterator[dict[str, Any]]:
        if step.end is not None:
            yield _event("E", step.end, _SCHEDULER, _STEPS)
            return
        begin = _event("B", step.begin, _SCHEDULER, _STEPS)
        yield {**begin, "name": f"step {step.step}", "args": {"tokens": step.num_tokens}}
        counts = {
            "requests": {"running": step.num_running, "waiting": step.num_waiting},
            "KV blocks": {"used": self._num_blocks - step.num_free_blocks},
            "step": {"tokens": step.num_tokens},
        }
        for name, count in counts.items():
            if self._counts.get(name) != count:
                self._counts[name] = count
                counter = _event("C", step.begin, _SCHEDULER, _STEPS)
                yield {**counter, "name": name, "args": count}

    def _new_track(self, event: Span | RequestEnd) -> Iterator[dict[str, Any]]:
        track = self._tracks[event.request_id] = self._next_track
        self._next_track += 1
        time = event.begin if isinstance(event, Span) else event.time
        name = _name("thread_name", _REQUESTS, track, f"request {event.request_id}")
        order = {"name": "thread_sort_index", "args": {"sort_index": track}}
        yield {**name, "ts": _micro(time)}
        yield {**name, "ts": _micro(time), **order}


def _micro(time: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(time * _MICRO, 3)


def _event(phase: str, time: float, process: int, track: int) -> dict[str, Any]:
    return {"ph": phase, "ts": _micro(time), "pid": process, "tid": track}


def _name(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    event = _event("M", 0.0, process, track)
    return {**event, "name": kind, "args": {"name": name}}


def _title(span: Span) -> str:
    """Return the name of a slice: the work, and the request that holds it up."""
    who = span.reason.split(":")[0]
    return f"{span.kind}: {who}" if who and span.kind == "queued" else span.kind
