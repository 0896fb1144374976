"""Sampling parameters: the choice of tokens, and the end of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import field, frozen

from batchwright.number_bounds import number_problem, shown, token_ids_problem

_MAY_BE_NONE: Final = ("max_tokens", "seed", "logprobs")
_NUMBERS: Final = (
    "max_tokens",
    "min_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "logprobs",
)


def _strings(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _token_ids(value: Sequence[int] | None) -> tuple[int, ...]:
    return () if value is None else tuple(value)


@frozen(kw_only=True)
class SamplingParams:
    """Sampling and stopping of one request.

    Values are checked when a request is added (``problem``), so that a bad one is
    refused with the request's id instead of failing where it was built. Every number
    has bounds; the message names them.

    Args:
        max_tokens: Most output tokens (tokens); None means up to max_model_len.
        min_tokens: EOS, stop tokens and stop strings are ignored before this many
            output tokens.
        temperature: 0 is greedy; otherwise logits are divided by it; up to 1000.
        top_p: Keep the smallest set of tokens whose probability reaches this, (0, 1].
        top_k: Keep the k likeliest tokens; 0 keeps all.
        min_p: Keep tokens of at least this share of the likeliest one's probability,
            [0, 1].
        presence_penalty: Lowers the logits of tokens that the output has, [-2, 2].
        frequency_penalty: Lowers them as often as the output has each, [-2, 2].
        repetition_penalty: Divides the positive logits of tokens that prompt or output
            have, and multiplies their negative ones; 1 changes nothing; 0.01 to 100.
        seed: Random numbers that do not depend on the rest of the batch; None draws one.
            In bfloat16 and float16 logits do depend on it, by rounding.
        stop: Strings that end the output; they are not part of it.
        stop_token_ids: Tokens that end the output; they are part of it.
        ignore_eos: Go on past the model's end-of-sequence token.
        logprobs: Return this many likeliest tokens' log-probabilities a position;
            0 only the sampled token's; None none.
    """

    max_tokens: int | None = 16
    min_tokens: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = field(default=(), converter=_strings)
    stop_token_ids: tuple[int, ...] = field(default=(), converter=_token_ids)
    ignore_eos: bool = False
    logprobs: int | None = None

    def problem(self) -> str | None:
        """Say what is wrong with these parameters, or None if nothing is."""
        for name in _NUMBERS:
            value: Any = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            problem = number_problem(name, value)
            if problem is not None:
                return problem
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            return f"min_tokens ({self.min_tokens}) exceeds max_tokens ({self.max_tokens})"
        if any(not isinstance(stop, str) or not stop for stop in self.stop):
            return f"stop must hold non-empty strings, not {shown(self.stop)}"
        return token_ids_problem("stop_token_ids", self.stop_token_ids)
