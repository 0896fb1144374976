"""Sampling parameters: the choice of tokens, and the end of a request."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from batchwright.number_bounds import BOUNDS, number_problem, shown, token_ids_problem


def _strings(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _token_ids(value: Sequence[int] | None) -> tuple[int, ...]:
    return () if value is None else tuple(value)


@frozen(kw_only=True)
class SamplingParams:
    """Sampling and stopping of one request.

    Values are checked when a request is added (``problem``), so that a bad one is refused with
    the request's id instead of failing where it was built. Every number has bounds; the message
    names them.

    Args:
        max_tokens: Most output tokens; None: up to max_model_len.
        min_tokens: Output tokens before which EOS, stop tokens and stop strings are ignored.
        temperature: Divisor of the logits (up to 1000); 0 is greedy.
        top_p: Probability that the kept tokens, the likeliest ones, reach together, (0, 1].
        top_k: Number of likeliest tokens that are kept; 0: all.
        min_p: Least probability of a kept token, as a share of the likeliest one's, [0, 1].
        presence_penalty: Reduction of the logits of tokens that the output has, [-2, 2].
        frequency_penalty: Reduction of a logit for each time that the output has the token,
            [-2, 2].
        repetition_penalty: Divisor of the positive logits of tokens that prompt or output have,
            and factor on their negative ones; 1 changes nothing; 0.01 to 100.
        seed: Seed of random numbers that do not depend on the rest of the batch; None draws
            one. In bfloat16 and float16 the rounding of logits does depend on it.
        stop: Strings that end the output; they are not part of it.
        stop_token_ids: Tokens that end the output; they are part of it.
        ignore_eos: True to continue past the model's end-of-sequence token.
        logprobs: Number of likeliest tokens whose log-probabilities are returned for each
            position; 0: only the sampled token's; None: none.
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
            if (problem := number_problem(name, getattr(self, name))) is not None:
                return problem
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            return f"min_tokens ({self.min_tokens}) exceeds max_tokens ({self.max_tokens})"
        if any(not isinstance(stop, str) or not stop for stop in self.stop):
            return f"stop must hold non-empty strings, not {shown(self.stop)}"
        return token_ids_problem("stop_token_ids", self.stop_token_ids)


_NUMBERS = [name for name in BOUNDS if hasattr(SamplingParams, name)]
"""The parameters that have bounds."""
