"""A trace of requests that share nothing: when each came, what it asked and was given."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Arrival, Workload
from batchwright_lab.workload.lines import TraceFile
from batchwright_lab.workload.prompts import unique_prompt

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["TraceOptions", "TraceTable"]


@frozen
class TraceOptions:
    """Options of a trace in a file."""

    path: str = option("", "File of the trace, relative to the TOML file.")
    repeat: int = option(1, "Times that the trace is played, one after the other.", ge=1)


class Rows:
    """Columns of a trace: seconds from its beginning, prompt and output tokens."""

    def __init__(self) -> None:
        self.times = array("d")
        self.num_prompt_tokens = array("I")
        self.num_output_tokens = array("I")

    def __len__(self) -> int:
        return len(self.times)

    def add(self, time: float, num_prompt: int, num_output: int) -> None:
        """Append a row."""
        self.times.append(time)
        self.num_prompt_tokens.append(num_prompt)
        self.num_output_tokens.append(num_output)

    def span(self) -> float:
        """Seconds from the first arrival to one mean gap behind the last."""
        begin, end = self.times[0], self.times[-1]
        gap = (end - begin) / (len(self) - 1) if len(self) > 1 else 0.0
        return end - begin + gap


class TraceTable(Workload):
    """The base of traces without contents; a subclass reads the file."""

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.file = TraceFile(options.path, ctx.folder, f"{ctx.path}.path")

    @abstractmethod
    def read(self) -> Rows:
        """Read the file, rows in order of time.

        Raises:
            ConfigError: It cannot be read, holds nothing, or a line is broken.
        """

    @cached_property
    def rows(self) -> Rows:
        """The file's content."""
        rows = self.read()
        if not len(rows):
            raise self.file.empty()
        return rows

    @property
    def max_output_tokens(self) -> int:
        return max(self.rows.num_output_tokens)

    @property
    def rate(self) -> float | None:
        span = self.rows.span()
        return len(self.rows) / span if span > 0 else None

    def arrivals(self) -> Iterator[Arrival]:
        rows, number = self.rows, 0
        begin, span = rows.times[0], rows.span()
        for turn in range(self.options.repeat):
            offset = turn * span - begin
            for time, num_prompt, num_output in zip(
                rows.times, rows.num_prompt_tokens, rows.num_output_tokens, strict=True
            ):
                yield Arrival(
                    time=time + offset,
                    prompt_token_ids=unique_prompt(number, num_prompt),
                    num_output_tokens=num_output,
                )
                number += 1
