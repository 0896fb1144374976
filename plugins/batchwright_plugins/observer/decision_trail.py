"""Reads a decision log back: who stands where after each step, and why."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from attrs import define, field

__all__ = ["FORMAT", "VERSION", "DecisionTrail", "follow", "read_header"]


FORMAT: Final = "batchwright-decisions"
VERSION: Final = 1
_SIZES: Final = (
    "block_size",
    "num_usable_blocks",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
)


@define
class DecisionTrail:
    """What the lines read so far say.

    Attributes:
        is_step: Whether the last line was one of a step.
        step: Id of the last step; None before the first.
        time: Seconds on the scheduler's clock at the last line.
        running: Running requests, in order of admission.
        waiting: Waiting requests in order of arrival, with the reason given last; empty
            where there is none.
        stop: Where the last scan ended: request (or None) and reason; None: nowhere.
        grants: Tokens that the last step granted, by request.
        owed: Tokens that those owed which the last step visited, by request.
        admitted: By request that the last step admitted, tokens that were there.
        preempted: By request that the last step took blocks from, for whom (or None).
        added: By request that the last line added, prompt tokens, most output tokens,
            and time of arrival.
        fields: By request that the last line added, what else it says of it.
        finished: By request, (reason, detail).
        ended: By request that the last line ended, all that it says of it.
        resumed: Those that the last step admitted again, after a preemption.
        done: Steps that were done since the line before, and when (seconds).
        new_reasons: Why requests wait, where the last step changed that.
        num_free_blocks: Blocks that were free behind the last step.
        lists_blocks: Whether the last step listed blocks by id.
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
            ValueError, TypeError, LookupError, AttributeError: It is none.
        """
        self.time = line.get("time", self.time)
        if not math.isfinite(self.time):
            raise ValueError(f"no time: {self.time}")
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
        self.waiting |= dict.fromkeys(self.added, "")
        self.is_step = "step" in line
        if self.is_step:
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
        if type(self.step) is not int:
            raise TypeError(f"no step: {self.step!r}")
        self.preempted, self.admitted = line.get("preempted", {}), line.get("admitted", {})
        self.num_free_blocks = line.get("free", 0)
        self.resumed = line.get("resumed", [])
        for request_id in self.preempted:
            self.running.pop(request_id, None)
            self.waiting[request_id] = ""
        for request_id in self.admitted:
            self.waiting.pop(request_id, None)
            self.running[request_id] = None
        self.new_reasons = line.get("waits", {})
        for request_id, reason in self.new_reasons.items():
            self.running.pop(request_id, None)  # it paused, or its executor was lost
            self.waiting[request_id] = reason
        if "stop" in line:
            self.stop = tuple(line["stop"]) if line["stop"] else None
        visited = line.get("grants", {}).items()
        grants = {key: grant for key, (_, grant, _) in visited}
        self.owed = {key: owed for key, (owed, _, _) in visited}
        self.lists_blocks = any(type(new) is list for _, _, new in line.get("grants", {}).values())
        idle = line.get("left_out", ())
        carried = [key for key in self.running if key not in grants and key not in idle]
        if len(carried) != line.get("carried", 0):
            raise ValueError(f"{len(carried)} requests are carried, not {line.get('carried', 0)}")
        self.grants = dict.fromkeys(carried, 1) | grants


def follow(lines: Iterable[str]) -> Iterator[DecisionTrail]:
    """Follow a log line by line; a last line that is still being written is left out.

    Args:
        lines: Of the file, its header first.

    Yields:
        The same trail, after each line.

    Raises:
        ValueError: It is no decision log, or one of another version; says which line.
    """
    rows = iter(lines)
    read_header(next(rows, ""))
    trail = DecisionTrail()
    for number, row in enumerate(rows, 2):
        try:
            line = json.loads(row)
        except ValueError:
            if next(rows, None) is None:
                return
            raise ValueError(f"line {number} is no JSON; the log is damaged") from None
        try:
            trail.read(line)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            problem = f"line {number} does not go with those before it ({error!r})"
            raise ValueError(f"{problem}; the log is damaged") from error
        yield trail


def read_header(row: str) -> dict[str, Any]:
    """Read the first line of a log.

    Raises:
        ValueError: It is no header of a decision log, or of one of another version.
    """
    try:
        header = json.loads(row)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError("is no decision log: its first line is no header of one")
    if header.get("version") != VERSION:
        raise ValueError(
            f"is a decision log of version {header.get('version')!r}; this Batchwright reads "
            f"version {VERSION}"
        )
    for name in _SIZES:
        if type(header.get(name)) is not int:
            raise ValueError(f"is damaged: its header says no {name}")
    config = header.get("config", {})
    if not isinstance(config, dict) or not isinstance(config.get("scheduler", {}), dict):
        raise ValueError("is damaged: what its header has as config is no configuration")
    if not isinstance(header.get("folder", ""), str):
        raise ValueError("is damaged: what its header has as folder is no path")
    return header
