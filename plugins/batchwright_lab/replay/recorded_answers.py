"""Prompts and answers that a log does not hold, made so that they share what those shared."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from attrs import frozen

from batchwright_plugins.observer.replay_record import blocks_of

if TYPE_CHECKING:
    from batchwright_lab.recording.recording import RecordedRequest

__all__ = ["EOS", "Answer", "Answers", "make_answer"]

EOS: Final = 0
"""The token that ends a sequence; no other token that is made here is below 2**30."""
_OWN: Final = 1 << 30
_STOP_TOKEN: Final = "stop_token:"


@frozen
class Answer:
    """The tokens of a request, prompt first.

    Args:
        token_ids: All that are known.
        num_prompt_tokens: Of its prompt.
        filler: The token behind the last known one.
        stop_token_ids: Tokens that end it beside ``EOS``.
    """

    token_ids: array[int]
    num_prompt_tokens: int
    filler: int
    stop_token_ids: tuple[int, ...] = ()

    def at(self, position: int) -> int:
        """The token at a position."""
        return self.token_ids[position] if position < len(self.token_ids) else self.filler


def make_answer(request: RecordedRequest, number: int, block_size: int) -> Answer:
    """Make tokens for a recorded request.

    A full block's say which digest it had: equal for those that were equal, with all before
    them. Behind the last full block they are the request's own. The last one is what ended it.

    Args:
        request: The request of the log.
        number: Of this request among all of the log.
        block_size: Tokens that a digest stands for.
    """
    num_outputs = request.num_output_tokens or 0
    length, filler = request.num_prompt_tokens + num_outputs, _OWN + number
    tokens = array("I", [filler]) * length
    contents = request.fields.get("contents", "") + request.contents
    for index, block in enumerate(blocks_of(contents, block_size)):
        tokens[index * block_size : (index + 1) * block_size] = block
    stop = _stop_token(request)
    if request.end == "stop" and num_outputs and (stop or request.detail == "eos"):
        tokens[-1] = stop[0] if stop else EOS
    return Answer(tokens, request.num_prompt_tokens, filler, stop)


def _stop_token(request: RecordedRequest) -> tuple[int, ...]:
    number = request.detail.removeprefix(_STOP_TOKEN)
    return (int(number),) if number != request.detail else ()


class Answers:
    """Answers to live requests; see ``batchwright.protocols.OutputOracle``."""

    def __init__(self) -> None:
        self._by_id: dict[str, Answer] = {}

    def give(self, request_id: str, answer: Answer) -> None:
        """Say how a request to come is answered, token for token."""
        self._by_id[request_id] = answer

    def __getitem__(self, request_id: str) -> Answer:
        return self._by_id[request_id]

    def expect(self, request_id: str, num_output_tokens: int, token_id: int) -> None:
        """See ``OutputOracle``: an answer of which only the length is known."""
        tokens = array("I", [token_id]) * num_output_tokens
        self._by_id[request_id] = Answer(tokens, 0, token_id)

    def output_tokens(self, request_id: str) -> int | None:
        """See ``OutputOracle``."""
        answer = self._by_id.get(request_id)
        return None if answer is None else len(answer.token_ids) - answer.num_prompt_tokens or None

    def forget(self, request_id: str) -> None:
        """See ``OutputOracle``."""
        self._by_id.pop(request_id, None)
