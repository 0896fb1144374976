"""Answers in the making: output tokens, text and metrics of one request."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from batchwright.messages import RequestOutput, TokenLogprobs
from batchwright.protocols import Tokenizer
from batchwright.request import Request
from batchwright_engine.detokenizer import Detokenizer
from batchwright_plugins.metrics import RequestTimes


class Answer:
    """A request on its way: its output so far, and the text in the making.

    Attributes:
        ended: Takes the final output if ``generate`` made the request, whatever steps the engine.
    """

    def __init__(self, request: Request, tokenizer: Tokenizer | None) -> None:
        params = request.sampling_params
        self.request = request
        self.output = RequestOutput(request_id=request.request_id)
        self.text = Detokenizer(tokenizer, params.stop, params.min_tokens)
        self.ended: deque[RequestOutput] | None = None

    def extend(self, tokens: list[int], logprobs: Sequence[TokenLogprobs] | None) -> None:
        """Take in a step's new tokens, up to the one that completes a stop string."""
        output = self.output
        output.new_token_ids = tokens
        output.token_ids.extend(tokens)
        if logprobs:
            if output.logprobs is None:
                output.logprobs = []
            output.logprobs.extend(logprobs[: len(tokens)])
        num_behind = len(tokens) - self.text.append(tokens)
        if num_behind:
            output.new_token_ids = tokens[:-num_behind]
            del output.token_ids[-num_behind:]
            if output.logprobs:
                del output.logprobs[len(output.token_ids) :]

    def end(self, reason: str, detail: str) -> None:
        """Note how the request ended; what is noted first counts."""
        if not self.output.finished:
            self.output.finish_reason, self.output.detail = reason, detail

    def give(self) -> RequestOutput:
        """The output, with the text that can be given out."""
        output = self.output
        is_final = output.finish_reason is not None
        output.new_text = self.text.take(final=is_final)
        output.text += output.new_text
        if is_final:
            output.metrics = _metrics(self.request, len(output.token_ids))
        return output


_COUNTS = (
    "num_prompt_tokens",
    "num_output_tokens",
    "num_cached_tokens",
    "num_preemptions",
    "num_recomputed_tokens",
)

NO_METRICS: Final[Mapping[str, float | int | None]] = {
    **{f"{field.name}_s": None for field in attrs.fields(RequestTimes)},
    **dict.fromkeys(_COUNTS, 0),
    "num_prompt_tokens": None,
    "num_cached_tokens": None,
}
"""``RequestOutput.metrics`` of a request that was never added: what nothing says is None."""


def _metrics(request: Request, num_output_tokens: int) -> dict[str, float | int | None]:
    """Timings (seconds on the scheduler's clock) and counts of an ended request.

    Args:
        request: The request.
        num_output_tokens: Those of its answer: a step may have brought some behind its end.
    """
    times = attrs.asdict(RequestTimes.of(request.view, num_output_tokens))
    counts = {name: getattr(request, name) for name in _COUNTS}
    counts["num_output_tokens"] = num_output_tokens
    return {**{f"{name}_s": time for name, time in times.items()}, **counts}
