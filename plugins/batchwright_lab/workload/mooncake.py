"""Mooncake's traces: prompts as chains of hashed blocks."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Arrival, Workload
from batchwright_lab.workload.lines import TraceFile
from batchwright_lab.workload.prompts import SHARED_TOKENS, pieces
from batchwright_lab.workload.table import Rows

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["Mooncake"]

_MOST_IDS: Final = (1 << 30) - SHARED_TOKENS
_KEYS: Final = ("timestamp", "input_length", "output_length", "hash_ids")
_FOREIGN: Final = ("chat_id", "parent_chat_id", "turn")
"""Keys of a trace that looks alike and means seconds, and blocks of 16 tokens."""


@frozen
class Options:
    """Options of Mooncake's traces."""

    path: str = option("", "File of the trace, relative to the TOML file.")
    block_size: int = option(512, "Tokens of one hash id.", unit="tokens", ge=1)
    jitter: bool = option(
        True,
        "True to spread requests of one timestamp at random up to the next one; the published"
        " times are rounded to about 3 s.",
    )


class Mooncake(Workload):
    """A trace of Mooncake (FAST 2025): JSON lines with ``hash_ids`` for blocks of the prompt.

    Each line has ``timestamp`` (ms), ``input_length``, ``output_length`` and ``hash_ids``: one
    id for every ``block_size`` tokens, the last of which may be fewer. Equal ids become equal
    blocks.
    """

    name = "mooncake"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.file = TraceFile(options.path, ctx.folder, f"{ctx.path}.path")

    @classmethod
    def recognizes(cls, head: str) -> bool:
        return head.startswith("{") and '"hash_ids"' in head

    @property
    def max_output_tokens(self) -> int:
        return max(self._read[0].num_output_tokens)

    @property
    def rate(self) -> float | None:
        span = self._read[0].span()
        return len(self._read[0]) / span if span > 0 else None

    def arrivals(self) -> Iterator[Arrival]:
        rows, blocks = self._read
        columns = (self._times(rows), rows.num_prompt_tokens, rows.num_output_tokens, blocks)
        for time, num_prompt, num_output, ids in zip(*columns, strict=True):
            yield Arrival(
                time=time,
                prompt_token_ids=self._prompt(num_prompt, ids),
                num_output_tokens=num_output,
            )

    def _prompt(self, length: int, ids: array[int]) -> array[int]:
        size = self.options.block_size
        lengths = [size] * (len(ids) - 1) + [length - size * (len(ids) - 1)]
        return pieces((SHARED_TOKENS + n, size) for n, size in zip(ids, lengths, strict=True))

    def _times(self, rows: Rows) -> Iterator[float]:
        begin = rows.times[0]
        times = [time - begin for time in rows.times]
        if not self.options.jitter:
            yield from times
            return
        chance = self.ctx.stream("arrivals")
        stamps = [*dict.fromkeys(times), rows.span()]
        ends = dict(pairwise(stamps))
        counts = Counter(times)
        for stamp, end in ends.items():
            yield from _spread(stamp, max(stamp, end), counts[stamp], chance)

    @cached_property
    def _read(self) -> tuple[Rows, list[array[int]]]:
        rows, blocks = Rows(), []
        for number, record in self.file.objects():
            self._check(number, record)
            stamp = record["timestamp"]
            time = self.file.seconds(number, "timestamp", stamp, per_second=1000)
            if len(rows) and time < rows.times[-1]:
                raise self.file.broken(number, "a timestamp not before the last", stamp)
            num_prompt = self.file.count(number, "input_length", record["input_length"])
            ids = self._ids(number, record["hash_ids"], num_prompt)
            num_output = self.file.count(number, "output_length", record["output_length"])
            rows.add(time, num_prompt, num_output)
            blocks.append(ids)
        if not len(rows):
            raise self.file.empty()
        return rows, blocks

    def _check(self, number: int, record: dict[str, Any]) -> None:
        """Refuse a line of another format.

        Raises:
            ConfigError: It lacks a key, or has one that no trace of Mooncake has.
        """
        if any(key not in record for key in _KEYS):
            raise self.file.broken(number, f"an object with {', '.join(_KEYS)}", record)
        foreign = next((key for key in _FOREIGN if key in record), None)
        if foreign is not None:
            raise self.file.broken(
                number,
                "a trace of Mooncake (blocks of 512 tokens, times in milliseconds); one with "
                f"{', '.join(_FOREIGN)} has blocks of 16 tokens and times in seconds, and is not "
                "read",
                f"the key {foreign}",
            )

    def _ids(self, number: int, ids: Any, num_prompt: int) -> array[int]:
        wanted = -(-num_prompt // self.options.block_size)
        if not isinstance(ids, list) or len(ids) != wanted:
            raise self.file.broken(
                number,
                f"{wanted} hash_ids for {num_prompt} tokens in blocks of {self.options.block_size}",
                ids,
            )
        if not all(type(n) is int and 0 <= n < _MOST_IDS for n in ids):
            raise self.file.broken(number, f"hash_ids, integers from 0 to {_MOST_IDS - 1}", ids)
        return array("I", ids)


def _spread(begin: float, end: float, count: int, chance: random.Random) -> list[float]:
    return sorted(chance.uniform(begin, end) for _ in range(count))
