"""Reads a decision log back: who stands where after each step, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field

__all__ = ["DecisionTrail", "follow"]


@define
class DecisionTrail:
    """What the lines read so far say.

    Attributes:
        step: Id of the last step; None before the first.
        running: Running requests, in order of admission.
        waiting: Waiting requests in order of arrival, with the reason given last; empty
            where there is none.
        stop: Where the last scan ended: request (or None) and reason; None: nowhere.
        grants: Tokens that the last step granted, by request.
        finished: By request, (reason, detail).
    """

    step: int | None = None
    running: dict[str, None] = field(factory=dict)
    waiting: dict[str, str] = field(factory=dict)
    stop: tuple[str | None, str] | None = None
    grants: dict[str, int] = field(factory=dict)
    finished: dict[str, tuple[str, str]] = field(factory=dict)

    def read(self, line: dict[str, Any]) -> None:
        """Take in one line after the header."""
        for request_id, (reason, detail) in line.get("finished", {}).items():
            self.running.pop(request_id, None)
            self.waiting.pop(request_id, None)
            self.finished[request_id] = reason, detail
        for request_id in line.get("added", {}):
            self.waiting[request_id] = ""
        if "step" in line:
            self._read_step(line)

    def why(self, request_id: str) -> str:
        """Why a request waits.

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
        for request_id in line.get("preempted", {}):
            self.running.pop(request_id, None)
            self.waiting[request_id] = ""
        for request_id in line.get("admitted", {}):
            self.waiting.pop(request_id, None)
            self.running[request_id] = None
        for request_id, reason in line.get("waits", {}).items():
            self.waiting[request_id] = reason
        if "stop" in line:
            self.stop = tuple(line["stop"]) if line["stop"] else None
        grants = {key: grant for key, (_, grant, _) in line.get("grants", {}).items()}
        idle = line.get("left_out", ())
        carried = [key for key in self.running if key not in grants and key not in idle]
        self.grants = dict.fromkeys(carried, 1) | grants


def follow(lines: Iterable[str]) -> Iterator[DecisionTrail]:
    """Follow a log line by line.

    Args:
        lines: Of the file, its header first.

    Yields:
        The same trail, after each line.

    Raises:
        ValueError: It is no decision log, or one of another version.
    """
    rows = iter(lines)
    header = json.loads(next(rows, "{}"))
    if header.get("format") != "batchwright-decisions" or header.get("version") != 1:
        raise ValueError(f"no decision log of version 1: {header}")
    trail = DecisionTrail()
    for row in rows:
        trail.read(json.loads(row))
        yield trail
