"""Conversations: each turn has what was said before in its prompt."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from attrs import define, frozen

from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright.protocols import Arrival, Workload
from batchwright_lab.workload.lines import MOST_TOKENS, TraceFile, short
from batchwright_lab.workload.prompts import OWN_TOKENS, pieces

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["ShareGpt"]

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_ANSWERS: Final = ("gpt", "assistant", "chatgpt", "bing", "bard")
_MOST_TURNS: Final = 1 << 12


@frozen
class Options:
    """Options of conversations."""

    path: str = option("", "File of the trace, relative to the TOML file.")
    rate: float = option(
        1.0, "Rate at which conversations begin (a Poisson process).", unit="1/s", gt=0
    )
    think_time: float = option(
        10.0, "Mean time from an answer to the next turn; exponential.", unit="seconds", ge=0
    )
    chars_per_token: float = option(4.0, "Characters a token, in place of a tokenizer.", gt=0)


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
    after the last answer. Its prompt has all earlier messages and the new one: those of users,
    of the system and of tools. An answer without a question is part of the next prompt, too. A
    conversation is a ``group``.
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
        found = [
            turns
            for index, (line, record) in enumerate(self._records())
            if (turns := self._turns(f"{self.file.path}:{line}: conversation {index}", record))
        ]
        if not found:
            raise self.file.empty()
        return found

    def _records(self) -> Iterator[tuple[int, Any]]:
        """The elements of the array, each with the line that it begins in.

        Raises:
            ConfigError: It is no JSON array.
        """
        text, at, line = self.file.text(), 0, 1
        for begin, record, problem in _elements(text):
            line += text.count("\n", at, begin)
            at = begin
            if problem:
                raise self.file.broken(line, problem, text[begin : begin + 80])
            yield line, record

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

    def _turns(self, where: str, record: Any) -> list[tuple[int, int]]:
        """Pairs of what is new in a prompt and the answer to it; what is left has no answer.

        Raises:
            ConfigError: It is no conversation.
        """
        said = record.get("conversations") if isinstance(record, dict) else None
        if not isinstance(said, list):
            raise _broken(where, "an object with a list 'conversations'", record)
        turns: list[tuple[int, int]] = []
        asked = total = 0
        for entry in said:
            role, length = self._message(where, entry)
            total += length
            if role in _ANSWERS and asked and length:
                turns.append((asked, length))
                asked = 0
            else:
                asked += length
        if len(turns) > _MOST_TURNS or total > MOST_TOKENS:
            expected = f"a conversation of at most {_MOST_TURNS} turns and {MOST_TOKENS} tokens"
            raise _broken(where, expected, f"{len(turns)} turns and {total} tokens")
        return turns

    def _message(self, where: str, entry: Any) -> tuple[str, int]:
        """The role and the length (tokens) of a message.

        Raises:
            ConfigError: It is none.
        """
        found = entry if isinstance(entry, dict) else {}
        role, value = found.get("from", found.get("role")), found.get("value", found.get("content"))
        if not isinstance(role, str):
            raise _broken(where, "a message with 'from' or 'role', a text", entry)
        if isinstance(value, str):
            return role, math.ceil(len(value) / float(self.options.chars_per_token))
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
            return role, value
        raise _broken(where, "a message with a value, text or tokens", entry)


def _broken(where: str, expected: str, got: Any) -> ConfigError:
    return ConfigError(f"expected {expected}, got {short(got)}", source=where)


def _elements(text: str) -> Iterator[tuple[int, Any, str]]:
    """Read a JSON array one element at a time.

    Yields:
        Where an element begins, and the element; in the end what is wrong, if anything is.
    """
    decoder, at = json.JSONDecoder(), _skip(text, 0)
    if text[at : at + 1] != "[":
        yield at, None, "an array of conversations"
        return
    at = _skip(text, at + 1)
    is_over = text[at : at + 1] == "]"
    while not is_over:
        try:
            record, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            yield error.pos, None, f"JSON ({error.msg})"
            return
        except (ValueError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            yield at, None, f"JSON ({'it is nested too deeply' if deep else error})"
            return
        yield at, record, ""
        at = _skip(text, end)
        is_over = text[at : at + 1] == "]"
        if not is_over:
            if text[at : at + 1] != ",":
                yield at, None, "JSON (',' or ']')"
                return
            at = _skip(text, at + 1)
    at = _skip(text, at + 1)
    if at < len(text):
        yield at, None, "nothing behind the array"


def _skip(text: str, at: int) -> int:
    """Return the place of the next letter that is no blank."""
    match = _BLANKS.match(text, at)
    return match.end() if match else at
