"""Conversations: each turn has what was said before in its prompt."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from attrs import define, frozen

from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright.protocols import Arrival, Workload
from batchwright_plugins.workload.lines import TraceFile
from batchwright_plugins.workload.prompts import OWN_TOKENS, pieces

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["ShareGpt"]

_ASKS: Final = ("human", "user")
_ANSWERS: Final = ("gpt", "assistant", "chatgpt", "bing", "bard")
_MOST_TURNS: Final = 1 << 12


@frozen
class Options:
    """Options of conversations."""

    path: str = option("", "The file, relative to the TOML file.")
    rate: float = option(1.0, "Conversations that begin, by a Poisson process.", unit="1/s", gt=0)
    think_time: float = option(
        10.0, "Mean time from an answer to the next turn; exponential.", unit="seconds", ge=0
    )
    chars_per_token: float = option(4.0, "Length of texts, since there is no tokenizer here.", gt=0)


@define(kw_only=True)
class _Turn(Arrival):
    """A turn of a conversation.

    Args:
        conversation: Which one.
        number: Which turn of it.
    """

    conversation: int
    number: int


class ShareGpt(Workload):
    """Conversations as in ShareGPT's JSON: lists of ``from`` and ``value``.

    A file is a JSON array of objects ``{"id": ..., "conversations": [{"from": "human", "value":
    "..."}, {"from": "gpt", "value": "..."}, ...]}``. A ``value`` may be a number of tokens
    instead of a text. Conversations begin by a Poisson process; the next turn comes some time
    after the last answer, its prompt is all that was said before and the new message.
    A conversation is a ``group``.
    """

    name = "sharegpt"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.file = TraceFile(options.path, ctx.folder, f"{ctx.path}.path")
        self._thinking = ctx.stream("think times")

    @classmethod
    def recognizes(cls, head: str) -> bool:
        return head.lstrip().startswith("[") and '"conversations"' in head

    @property
    def max_output_tokens(self) -> int:
        return max(answer for turns in self.conversations for _, answer in turns)

    @cached_property
    def conversations(self) -> list[list[tuple[int, int]]]:
        """By conversation, each turn's message and answer (tokens)."""
        text = "\n".join(line for _, line in self.file.lines())
        try:
            records = json.loads(text)
        except json.JSONDecodeError as error:
            raise self.file.broken(error.lineno, f"JSON ({error.msg})", "") from None
        if not isinstance(records, list):
            raise self.file.broken(1, "an array of conversations", records)
        found = [self._turns(index, record) for index, record in enumerate(records)]
        found = [turns for turns in found if turns]
        if not found:
            raise self.file.empty()
        return found

    def arrivals(self) -> Iterator[Arrival]:
        self._thinking = self.ctx.stream("think times")
        chance, time = self.ctx.stream("arrivals"), 0.0
        for index in range(len(self.conversations)):
            time += chance.expovariate(self.options.rate)
            yield self._turn(time, index, 0, array("I"))

    def on_finish(self, arrival: Arrival, request: RequestView) -> Iterable[Arrival]:
        assert isinstance(arrival, _Turn)
        if arrival.number + 1 >= len(self.conversations[arrival.conversation]):
            return ()
        mean = self.options.think_time
        assert request.finish_time is not None
        time = request.finish_time + (self._thinking.expovariate(1 / mean) if mean else 0.0)
        history = array("I", request.prompt_token_ids)
        history.extend(array("I", request.output_token_ids))
        return [self._turn(time, arrival.conversation, arrival.number + 1, history)]

    def _turn(self, time: float, index: int, number: int, history: array[int]) -> _Turn:
        message, answer = self.conversations[index][number]
        own = OWN_TOKENS + (index * _MOST_TURNS + number) % OWN_TOKENS
        history.extend(pieces([(own, 1), (1, message - 1)]))
        return _Turn(
            time=time,
            prompt_token_ids=history,
            num_output_tokens=answer,
            group=f"conversation-{index}",
            conversation=index,
            number=number,
        )

    def _turns(self, index: int, record: Any) -> list[tuple[int, int]]:
        """Pairs of a message and the answer to it; what is no such pair is left out.

        Raises:
            ConfigError: It is no conversation.
        """
        said = record.get("conversations") if isinstance(record, dict) else None
        if not isinstance(said, list):
            problem = f"conversation {index}: expected an object with a list 'conversations'"
            raise ConfigError(f"{problem}, got {str(record)[:60]!r}", source=str(self.file.path))
        turns: list[tuple[int, int]] = []
        asked = 0
        for entry in said:
            who = entry.get("from", entry.get("role")) if isinstance(entry, dict) else None
            length = self._length(index, entry)
            if who in _ASKS:
                asked += length
            elif who in _ANSWERS and asked and length and len(turns) < _MOST_TURNS:
                turns.append((asked, length))
                asked = 0
        return turns

    def _length(self, index: int, entry: Any) -> int:
        value = entry.get("value", entry.get("content")) if isinstance(entry, dict) else None
        if isinstance(value, str):
            return math.ceil(len(value) / float(self.options.chars_per_token))
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        problem = f"conversation {index}: expected a value, text or tokens, got {str(entry)[:60]!r}"
        raise ConfigError(problem, source=str(self.file.path))
