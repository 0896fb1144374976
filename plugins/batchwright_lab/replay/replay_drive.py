"""Drive an engine through the arrivals and aborts of a recorded run."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from batchwright.exceptions import RequestRefusedError
from batchwright.request import Request, RequestStatus
from batchwright.sampling_params import SamplingParams
from batchwright_engine.signals import interrupt
from batchwright_lab.recording.recording import UNFINISHED
from batchwright_lab.replay.recorded_answers import EOS, make_answer

if TYPE_CHECKING:
    from types import FrameType

    from batchwright_engine.engine import Engine
    from batchwright_lab.recording.recording import RecordedRequest, Recording
    from batchwright_lab.replay.replay_pace import ReplayPace
    from batchwright_lab.replay.replayed_executor import ReplayedExecutor

__all__ = ["ReplayDrive"]

_FOREVER: Final = math.inf
_FROM_OUTSIDE: Final = ("abort", "error")
_STATUS: Final = {
    "abort": RequestStatus.FINISHED_ABORTED,
    "error": RequestStatus.FINISHED_ERROR,
    "stop": RequestStatus.FINISHED_STOPPED,
    "length": RequestStatus.FINISHED_LENGTH,
}
_FIELDS: Final = ("client", "group", "slo_class", "deadline", "cache_salt", "adapter")
_END_BY_THEMSELVES: Final = ("eos", "max_tokens", "max_model_len")


class ReplayDrive:
    """Repeat the events from outside.

    As long as the run is as recorded it comes between the steps between which it came;
    after that, when the clock says so. If requests had not ended when the log did, it is
    not known when they would have: the run ends at the same time.

    Args:
        engine: Built for a replay.
        executor: Its executor.
        pace: Its observer that compares.
        recording: The recorded run.

    Attributes:
        refused: Requests that were not added now, and why.
        stopped_by: Reason of an early end; empty if there is none.
        signal: The signal that stopped it, or None.
    """

    def __init__(
        self, engine: Engine, executor: ReplayedExecutor, pace: ReplayPace, recording: Recording
    ) -> None:
        self.engine = engine
        self.refused: dict[str, str] = {}
        self.stopped_by = ""
        self.signal: int | None = None
        self._executor = executor
        self._pace = pace
        self._recording = recording
        self._scheduler = engine.scheduler
        self._clock = engine.scheduler.clock
        self._events = _events(recording)
        self._next = 0
        self._is_sorted = False
        self._to_end: dict[str, RecordedRequest] = {}
        """Live requests that something ends which no step does: a stop string, a full pool."""
        self._num_done = 0
        self._end_time = _FOREVER
        if recording.num_unfinished:  # a step that begins with the last line is made
            self._end_time = math.nextafter(recording.end_time, _FOREVER)

    def run(self) -> None:
        """Run until nothing is left.

        Raises:
            PluginError: A component failed too often in a row.
        """
        while not self.stopped_by:
            is_same = self._pace.difference is None
            if is_same and self._pace.num_steps >= len(self._recording.times):
                self._let_come(_FOREVER)
                if self._recording.num_unfinished or not self.engine.has_unfinished:
                    self._clock.wait_until(self._recording.end_time)  # its log was closed then
                    return
            elif is_same:
                self._prepare(self._pace.num_steps)
            elif not self._come_by_time():
                return
            self._step()

    def stop(self, number: int, frame: FrameType | None = None) -> None:
        """End it before the next step; called a second time, at once."""
        if self.signal is not None:
            interrupt(number)
        self.signal, self.stopped_by = number, "interrupted"

    def _prepare(self, index: int) -> None:
        """Let come what came before a step, unless one in flight was done before that."""
        recording = self._recording
        if not (self._scheduler.view.num_in_flight and self._num_done < recording.num_done[index]):
            self._let_come(recording.step_lines[index])
            self._clock.wait_until(recording.times[index])

    def _let_come(self, line: float) -> None:
        """Let everything come that had come up to a line of the log."""
        while self._next < len(self._events) and self._events[self._next][0] <= line:
            self._happen()

    def _come_by_time(self) -> bool:
        """Let everything come whose time it is.

        Returns:
            True if there is anything to do.
        """
        if self._clock.now() >= self._end_time:
            return False
        if not self._is_sorted:
            self._events[self._next :] = sorted(self._events[self._next :], key=itemgetter(2, 1, 4))
            self._is_sorted = True
        if not self.engine.has_unfinished:
            if self._next_time == _FOREVER:
                return False
            self._clock.wait_until(min(self._next_time, self._end_time))
        while self._next_time <= self._clock.now():
            self._happen()
        return True

    @property
    def _next_time(self) -> float:
        return self._events[self._next][2] if self._next < len(self._events) else _FOREVER

    def _happen(self) -> None:
        """Let the next event happen."""
        _, is_arrival, _, request, number = self._events[self._next]
        self._next += 1
        if not is_arrival:
            self._scheduler.finish(request.request_id, _STATUS[request.end], request.detail)
        else:
            self._add(request, number)

    def _add(self, request: RecordedRequest, number: int) -> None:
        block_size = self._scheduler.sizes.block_size
        answer = make_answer(request, number, block_size)
        given = {key: request.fields[key] for key in _FIELDS if key in request.fields}
        self._executor.answers.give(request.request_id, answer)
        try:
            self._scheduler.add_request(
                Request(
                    request_id=request.request_id,
                    prompt_token_ids=answer.token_ids[: request.num_prompt_tokens],
                    sampling_params=SamplingParams(
                        max_tokens=request.max_tokens, stop_token_ids=answer.stop_token_ids
                    ),
                    eos_token_id=EOS,
                    arrival_time=request.arrival_time,
                    priority=request.fields.get("priority", 0),
                    hints=request.fields.get("hints", {}),
                    **given,
                )
            )
        except RequestRefusedError as error:
            self.refused[request.request_id] = error.reason
            self._executor.answers.forget(request.request_id)
            return
        if request.end in ("stop", "length") and not _ends_by_itself(request):
            self._to_end[request.request_id] = request

    def _step(self) -> None:
        plan, outputs = self.engine.advance()
        if outputs is None:  # the executor here does not fail
            return
        self._num_done += 1
        for request_id in outputs.finished:
            self._executor.answers.forget(request_id)
            self._to_end.pop(request_id, None)
        self._end_some()
        if plan.is_empty and not outputs.finished and self._pace.difference is not None:
            self._idle()

    def _end_some(self) -> None:
        for request_id, request in list(self._to_end.items()):
            live = self._scheduler.requests.get(request_id)
            if live is None or live.num_output_tokens < (request.num_output_tokens or 0):
                continue
            # While the run is as recorded a pool that is full ends requests by itself.
            if request.end == "stop" or self._pace.difference is not None:
                del self._to_end[request_id]
                self._scheduler.finish(request_id, _STATUS[request.end], request.detail)

    def _idle(self) -> None:
        """Nothing could be computed: go on to what comes next."""
        alarm = self._scheduler.next_timer
        moment = min(self._next_time, _FOREVER if alarm is None else alarm, self._end_time)
        if moment < _FOREVER:
            self._clock.wait_until(moment)
        elif not self._scheduler.has_signals:
            view = self._scheduler.view
            if 0 < view.num_parked == view.num_waiting and not view.num_running:
                self.stopped_by = "every request waits for a key, and nothing will signal one"


_Event = tuple[float, int, float, "RecordedRequest", int]
"""Line, 0 for an end and 1 for an arrival, seconds, the request, its number."""


def _events(recording: Recording) -> list[_Event]:
    """Return the events from outside, in order."""
    found: list[_Event] = []
    for number, request in enumerate(recording.requests):
        found.append((request.line, 1, request.arrival_time, request, number))
        if request.end in _FROM_OUTSIDE and request.last_line is not None:
            time = request.finish_time or 0.0
            found.append((request.last_line, 0, time, request, number))
    return sorted(found, key=itemgetter(0, 1, 4))


def _ends_by_itself(request: RecordedRequest) -> bool:
    is_token = request.detail.startswith("stop_token:")
    return request.end == UNFINISHED or is_token or request.detail in _END_BY_THEMSELVES
