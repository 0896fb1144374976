"""A recorded run: its requests, its steps, and what became of them."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from batchwright_lab.recording.log_file import damaged, follow_log, header_of, recorded_policy
from batchwright_plugins.observer.replay_record import DIGEST_LETTERS

if TYPE_CHECKING:
    from batchwright_plugins.observer.decision_trail import DecisionTrail

__all__ = ["UNFINISHED", "RecordedRequest", "Recording"]

UNFINISHED: Final = "unfinished"
"""The end of a request that had not ended when the log did."""
_FIELDS: Final = 3
"""Least data of a request's end in a log that can be replayed."""
STOP_TOKEN: Final = "stop_token:"
"""Beginning of the detail of an end by a stop token."""
_DIGITS: Final = 10
_PIPELINE: Final = 8
"""Steps that may be in flight at once, as far as ends are told apart."""


@define
class RecordedRequest:
    """A request of a log. Times are seconds on the recorded clock.

    Args:
        request_id: Its id.
        line: The line at which it was added.
        num_prompt_tokens: Its prompt.
        max_tokens: Its cap on output tokens.
        arrival_time: When it came.
        fields: Its other fields.
        end: ``stop``, ``length``, ``abort``, ``error`` or ``UNFINISHED``.
        num_output_tokens: Its output tokens at its end; None: unknown.
        last_line: The line at which it had ended.
        num_cached_tokens: Hit at its first admission.
    """

    request_id: str
    line: int
    num_prompt_tokens: int
    max_tokens: int
    arrival_time: float
    fields: Mapping[str, Any] = field(factory=dict)
    end: str = UNFINISHED
    detail: str = ""
    num_output_tokens: int | None = None
    contents: str = ""
    last_line: int | None = None
    scheduled_time: float | None = None
    first_token_time: float | None = None
    finish_time: float | None = None
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0

    @property
    def ttft(self) -> float | None:
        """Seconds from arrival to its first token; None if there was none."""
        return None if self.first_token_time is None else self.first_token_time - self.arrival_time

    @property
    def e2e(self) -> float | None:
        """Seconds from arrival to its end by itself; None if it did not end so."""
        if self.finish_time is None or self.end not in ("stop", "length"):
            return None
        return self.finish_time - self.arrival_time


@define
class _Work:
    """Computed tokens of a live request."""

    request: RecordedRequest
    computed: int = 0
    high_water: int = 0
    num_sampled: int = 0
    answering: deque[tuple[int, int]] = field(factory=lambda: deque(maxlen=_PIPELINE))
    """The last steps that answer it: which token, and which step."""


class Recording:
    """A decision log, read once from end to end; memory as there are requests and steps.

    Args:
        path: The log.

    Attributes:
        header: Its first line.
        requests: In the order in which they were added.
        times: When each step began.
        ends: When its results were there; infinite if the log does not say.
        step_lines: The line of each step.
        num_done: Number of steps that were done before each was planned.
        end_time: The time of its last line.
        lost_executor: A step at which the executor had lost everything, or None.
        lists_blocks: True if blocks are listed by id.

    Raises:
        ConfigError: It cannot be read, or is no decision log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = header_of(path)
        self.requests: list[RecordedRequest] = []
        self.times = array("d")
        self.ends = array("d")
        self.step_lines = array("Q")
        self.num_done = array("Q")
        self._num_done = 0
        self.end_time = 0.0
        self.lost_executor: int | None = None
        self.lists_blocks = False
        self._live: dict[str, _Work] = {}
        self._answering: dict[int, list[_Work]] = {}
        self._first_step: int | None = None
        for line, trail in enumerate(follow_log(path), 2):
            try:
                self._read(line, trail)
            except (LookupError, ValueError) as error:
                raise damaged(path, line, str(error)) from error
        self._live.clear()

    @property
    def num_unfinished(self) -> int:
        """Requests that had not ended when the log did."""
        return sum(request.end == UNFINISHED for request in self.requests)

    @property
    def policy(self) -> str:
        """Name of the policy that decided; empty if the log does not say."""
        return recorded_policy(self.header)

    def missing(self) -> Iterator[str]:
        """Say what keeps this log from being replayed; nothing if it can be."""
        if "config" not in self.header:
            yield "the configuration (an older version wrote it, or with replay = false)"
        ended = [request for request in self.requests if request.end != UNFINISHED]
        if any(request.num_output_tokens is None for request in ended):
            yield "output lengths"
        with_features = [r.request_id for r in self.requests if r.fields.get("features")]
        if with_features:
            yield f"what features were told (request {with_features[0]!r})"
        if self.header.get("config", {}).get("feature"):
            yield "what features did in the executor"
        if self.lost_executor is not None:
            yield f"how the executor failed (step {self.lost_executor})"
        if not self.times:
            yield "any step"

    def _read(self, line: int, trail: DecisionTrail) -> None:
        self.end_time = trail.time
        for step, time in trail.done:
            self._done(step, time)
        self._num_done += len(trail.done)
        for request_id, what in trail.ended.items():
            self._end(line, request_id, what, trail)
        for request_id, (num_prompt, most, arrival) in trail.added.items():
            fields = trail.fields.get(request_id, {})
            self._check_contents(fields.get("contents", ""), num_prompt)
            request = RecordedRequest(request_id, line, num_prompt, most, arrival, fields)
            self.requests.append(request)
            self._live[request_id] = _Work(request)
        if trail.is_step:
            self._step(line, trail)

    def _done(self, step: int, time: float) -> None:
        if self._first_step is not None and 0 <= step - self._first_step < len(self.ends):
            self.ends[step - self._first_step] = time
        for work in self._answering.pop(step, ()):
            work.request.first_token_time = time

    def _end(self, line: int, request_id: str, what: list[Any], trail: DecisionTrail) -> None:
        work = self._live.pop(request_id, None)
        if work is None:  # it was added before the log began
            return
        request = work.request
        request.end, request.detail = what[:2]
        if len(what) >= _FIELDS:
            request.num_output_tokens = what[2]
            request.contents = what[3] if len(what) > _FIELDS else ""
            contents = request.fields.get("contents", "") + request.contents
            self._check_contents(contents, request.num_prompt_tokens + what[2])
        stop = request.detail.removeprefix(STOP_TOKEN)
        is_token = stop.isascii() and stop.isdigit() and len(stop) <= _DIGITS
        if stop != request.detail and not (is_token and int(stop) < 1 << 32):
            raise ValueError(f"no stop token: {stop[:60]!r}")
        request.last_line = line
        request.finish_time = self._when(work) if request.end in ("stop", "length") else trail.time

    def _check_contents(self, contents: str, num_tokens: int) -> None:
        """Check that there are no more blocks than tokens for them."""
        num_blocks = len(contents) // DIGEST_LETTERS
        if num_blocks * self.header["block_size"] > num_tokens:
            raise ValueError(f"contents of {num_blocks} blocks for {num_tokens} tokens")

    def _when(self, work: _Work) -> float:
        """Return the time of the last token of an ended request."""
        last = work.request.num_output_tokens
        step = next((s for token, s in work.answering if token == last), None)
        if step is None and work.answering:
            step = work.answering[-1][1]
        assert self._first_step is not None, "it has run"
        end = self.end_time if step is None else self.ends[step - self._first_step]
        return min(end, self.end_time)

    def _step(self, line: int, trail: DecisionTrail) -> None:
        assert trail.step is not None, "it is a step"
        if self._first_step is None:
            self._first_step = trail.step
        self.times.append(trail.time)
        self.ends.append(math.inf)
        self.step_lines.append(line)
        self.num_done.append(self._num_done)
        self.lists_blocks |= trail.lists_blocks
        for request_id in trail.preempted:
            self._live[request_id].request.num_preemptions += 1
        for request_id, hit in trail.admitted.items():
            self._admit(self._live[request_id], hit, trail)
        if any("(executor)" in reason for reason in trail.new_reasons.values()):
            self.lost_executor = trail.step
        for request_id, num_tokens in trail.grants.items():
            self._grant(self._live[request_id], num_tokens, trail)

    def _admit(self, work: _Work, hit: int, trail: DecisionTrail) -> None:
        work.computed = hit
        if work.request.scheduled_time is None:
            work.request.scheduled_time = trail.time
            work.request.num_cached_tokens = hit

    def _grant(self, work: _Work, num_tokens: int, trail: DecisionTrail) -> None:
        assert trail.step is not None, "it is a step"
        request, start = work.request, work.computed
        if start < work.high_water:
            request.num_recomputed_tokens += min(num_tokens, work.high_water - start)
        work.computed = start + num_tokens
        work.high_water = max(work.high_water, work.computed)
        owed = trail.owed.get(request.request_id, 1)
        if num_tokens >= owed:
            if not work.num_sampled:
                self._answering.setdefault(trail.step, []).append(work)
            work.num_sampled += 1
            work.answering.append((work.num_sampled, trail.step))
