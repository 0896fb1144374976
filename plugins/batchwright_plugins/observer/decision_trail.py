"""The reader of a decision log: the state of requests after each step, with reasons."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from attrs import define, field

from batchwright_plugins.observer.decision_line import check_header, check_line

__all__ = ["FORMAT", "VERSION", "DecisionTrail", "LogError", "follow", "read_header"]


FORMAT: Final = "batchwright-decisions"
VERSION: Final = 2


class LogError(ValueError):
    """A log cannot be read on.

    Args:
        problem: Why.
        line: The line, from 1; None: it is the log as a whole.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(problem)


@define
class DecisionTrail:
    """The state after the lines read so far.

    Attributes:
        is_step: True if the last line was one of a step.
        step: Id of the last step; None before the first.
        time: Seconds on the scheduler's clock at the last line.
        running: Running requests, in order of admission.
        waiting: Waiting requests in order of arrival, with the reason given last; empty
            where there is none.
        stop: End of the last scan: request (or None) and reason; None: none.
        grants: Scheduled tokens of the last step, by request.
        owed: New tokens of the requests that the last step visited, by request.
        admitted: By request that the last step admitted, tokens that were there.
        preempted: By request that lost blocks in the last step, the one that needed them (or None).
        added: By request that the last line added, prompt tokens, most output tokens,
            and time of arrival.
        fields: By request that the last line added, what else it says of it.
        finished: By request, (reason, detail).
        ended: By request that the last line ended, all that it says of it.
        resumed: Those that the last step admitted again, after a preemption.
        done: Steps that were done since the line before, and when (seconds).
        new_reasons: Reasons of waits that the last step changed.
        num_free_blocks: Blocks that were free behind the last step.
        lists_blocks: True if the last step listed blocks by id.
    """

    is_step: bool = False
    step: int | None = None
    time: float = 0.0
    running: dict[str, None] = field(factory=dict)
    waiting: dict[str, str] = field(factory=dict)
    stop: tuple[str | None, str] | None = None
    grants: dict[str, int] = field(factory=dict)
    owed: dict[str, int] = field(factory=dict)
    admitted: dict[str, int] = field(factory=dict)
    preempted: dict[str, str | None] = field(factory=dict)
    added: dict[str, tuple[int, int, float]] = field(factory=dict)
    fields: dict[str, dict[str, Any]] = field(factory=dict)
    finished: dict[str, tuple[str, str]] = field(factory=dict)
    ended: dict[str, list[Any]] = field(factory=dict)
    resumed: list[str] = field(factory=list)
    done: list[tuple[int, float]] = field(factory=list)
    new_reasons: dict[str, str] = field(factory=dict)
    num_free_blocks: int = 0
    lists_blocks: bool = False
    _undone: int | None = None

    def read(self, line: dict[str, Any]) -> None:
        """Take in one line after the header.

        Raises:
            ValueError, LookupError: It is none.
        """
        check_line(line)
        self.time = line.get("time", self.time)
        expected = [] if self._undone is None else [(self._undone, self.time)]
        self.done = line.get("done", expected)
        self._undone = line.get("step")
        self.ended = line.get("finished", {})
        for request_id, (reason, detail, *_) in self.ended.items():
            self.running.pop(request_id, None)
            self.waiting.pop(request_id, None)
            self.finished[request_id] = reason, detail
        added = line.get("added", {}).items()
        self.added = {key: tuple(what[:3]) for key, what in added}
        self.fields = {key: what[3] for key, what in added if len(what) > 3}
        for request_id in self.added:
            if request_id in self.running or request_id in self.waiting:
                raise ValueError(f"{_named(request_id)} is added twice")
        self.waiting |= dict.fromkeys(self.added, "")
        self.is_step = "step" in line
        if self.is_step:
            self._read_step(line)

    def why(self, request_id: str) -> str:
        """Return the reason why a request waits.

        Raises:
            KeyError: It does not wait.
        """
        reason = self.waiting[request_id]
        if reason:
            return reason
        if self.stop is None:
            return "in the queue"
        stopper, why = self.stop
        return why if stopper in (None, request_id) else f"behind {stopper!r}: {why}"

    def _read_step(self, line: dict[str, Any]) -> None:
        self.step = line["step"]
        self.preempted, self.admitted = line.get("preempted", {}), line.get("admitted", {})
        self.num_free_blocks = line.get("free", 0)
        self.resumed = line.get("resumed", [])
        for request_id in self.preempted:
            self._check_live(request_id)
            self.running.pop(request_id, None)
            self.waiting[request_id] = ""
        for request_id in self.admitted:
            self._check_live(request_id)
            self.waiting.pop(request_id, None)
            self.running[request_id] = None
        self.new_reasons = line.get("waits", {})
        for request_id, reason in self.new_reasons.items():
            self._check_live(request_id)
            self.running.pop(request_id, None)  # it paused, or its executor was lost
            self.waiting[request_id] = reason
        if "stop" in line:
            self.stop = tuple(line["stop"]) if line["stop"] else None
        visited = line.get("scheduled", {}).items()
        for request_id, _ in visited:
            if request_id not in self.running:
                raise ValueError(f"{_named(request_id)} has scheduled tokens and does not run")
        grants = {key: grant for key, (_, grant, _) in visited}
        self.owed = {key: owed for key, (owed, _, _) in visited}
        self.lists_blocks = any(
            type(new) is list for _, _, new in line.get("scheduled", {}).values()
        )
        idle = line.get("left_out", ())
        carried = [key for key in self.running if key not in grants and key not in idle]
        if len(carried) != line.get("decode_batch", 0):
            said = line.get("decode_batch", 0)
            raise ValueError(f"{len(carried)} requests are in the decode batch, not {said}")
        self.grants = dict.fromkeys(carried, 1) | grants

    def _check_live(self, request_id: str) -> None:
        if request_id not in self.running and request_id not in self.waiting:
            raise ValueError(f"no {_named(request_id)} lives")


def follow(lines: Iterable[str]) -> Iterator[DecisionTrail]:
    """Follow a log line by line; a last line that is still being written is left out.

    Args:
        lines: Of the file, its header first.

    Yields:
        The same trail, after each line.

    Raises:
        LogError: It is no decision log, or one of another version; says which line.
    """
    rows = iter(lines)
    read_header(next(rows, ""))
    trail = DecisionTrail()
    for number, row in enumerate(rows, 2):
        try:
            line = _parse(row)
        except ValueError:
            if next(rows, None) is None:
                return
            raise LogError("is no JSON; the log is damaged", number) from None
        try:
            trail.read(line)
        except (LookupError, ValueError) as error:
            problem = f"does not go with the lines before it ({error}); the log is damaged"
            raise LogError(problem, number) from error
        yield trail


def read_header(row: str) -> dict[str, Any]:
    """Read the first line of a log.

    Raises:
        LogError: It is no header of a decision log, or of one of another version.
    """
    try:
        header = _parse(row)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise LogError("is no decision log: its first line is no header of one")
    if type(header.get("version")) is not int or header["version"] != VERSION:
        version = str(header.get("version"))[:20]
        raise LogError(
            f"is a decision log of version {version}; this Batchwright reads version {VERSION}"
        )
    try:
        check_header(header)
    except ValueError as error:
        raise LogError(str(error), 1) from None
    return header


def _parse(row: str) -> Any:
    """Parse a line.

    Raises:
        ValueError: It is no JSON, or holds bytes that are no UTF-8, or is nested too deeply.
    """
    if not row.isascii():
        row.encode()  # a byte that is no UTF-8 has become half a character
    try:
        line = json.loads(row)
        if "\\u" in row:
            json.dumps(line, ensure_ascii=False).encode()
        return line
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _named(request_id: str) -> str:
    return f"request {request_id[:60]!r}"
