"""Estimators: the time of a step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from batchwright.protocols.component import Component


class StepShape(NamedTuple):
    """The work of a step, as far as its time depends on it.

    A *decode* computes one token of a request, a *prefill* several of them (a chunk of a
    prompt, a recomputation, drafts to verify). Contexts are tokens whose KV was computed
    before the step.

    Args:
        num_decodes: Requests that compute one token.
        decode_context: Their contexts, summed (tokens).
        num_prefills: Requests that compute several tokens.
        num_prefill_tokens: The tokens that they compute.
        prefill_attention: ``q * (kv + q / 2)`` summed over them, for q tokens behind a
            context of kv: the pairs of query and key that attention looks at.
    """

    num_decodes: int = 0
    decode_context: int = 0
    num_prefills: int = 0
    num_prefill_tokens: int = 0
    prefill_attention: float = 0.0

    @classmethod
    def of(cls, grants: Iterable[tuple[int, int]]) -> StepShape:
        """The shape of a step.

        Args:
            grants: For each request its scheduled tokens and its context (tokens).
        """
        shape = cls()
        for num_tokens, context in grants:
            if num_tokens == 1:
                shape = shape.with_decodes(1, context)
            elif num_tokens > 1:
                shape = shape.with_prefill(num_tokens, context)
        return shape

    @property
    def num_tokens(self) -> int:
        """Tokens that are computed in all."""
        return self.num_decodes + self.num_prefill_tokens

    @property
    def num_requests(self) -> int:
        """Requests that are computed."""
        return self.num_decodes + self.num_prefills

    def with_prefill(self, num_tokens: int, context: int = 0) -> StepShape:
        """This shape, and one more request that computes several tokens."""
        decodes, decode_context, prefills, tokens, attention = self
        attention += num_tokens * (context + num_tokens / 2)
        return StepShape(decodes, decode_context, prefills + 1, tokens + num_tokens, attention)

    def with_decodes(self, count: int, context: int) -> StepShape:
        """This shape, and more requests that compute one token.

        Args:
            count: Number of requests.
            context: Their contexts, summed (tokens).
        """
        decodes, decode_context, prefills, tokens, attention = self
        return StepShape(decodes + count, decode_context + context, prefills, tokens, attention)


class Estimator(Component):
    """Step times, as components know them and as a simulation uses them.

    Other components use ``ctx.estimator``: the one that ``scheduler.estimator`` names. The true
    times of a simulation come from another instance (``simulation.estimator``), unless
    ``simulation.oracle_estimator`` lets components use that one; reports then say so.

    It is ready when it is built: a file that it needs is read in ``__init__``, which raises
    ConfigError for one that cannot be used. The same shape takes the same time, always: it uses
    no random numbers and keeps no state.

    Faults: an exception counts as one of the component that asked.
    """

    @abstractmethod
    def step_time(self, shape: StepShape) -> float:
        """Return the time of a step (seconds, > 0), planning included.

        Cost class: step; candidate, if it is asked about candidates.
        """

    def max_tokens(self, deadline: float, shape: StepShape, context: int = 0) -> int:
        """Return the most tokens that one more prefill may compute in the given time.

        Override it if there is a faster way than to try.

        Args:
            deadline: Seconds that the step may take.
            shape: The rest of the step.
            context: Tokens of that prefill that are computed already.

        Returns:
            The most tokens; 0 if there is no time for any.

        Cost class: as for ``step_time``.
        """
        too_many = 2
        while self.step_time(shape.with_prefill(too_many, context)) <= deadline:
            if too_many > _LONGEST:
                return too_many
            too_many *= 2
        enough = 0
        while too_many - enough > 1:
            middle = (enough + too_many) // 2
            fits = self.step_time(shape.with_prefill(middle, context)) <= deadline
            enough, too_many = (middle, too_many) if fits else (enough, middle)
        return enough

    def decode_times(self, num_decodes: int, context: int) -> Iterator[float]:
        """Times of steps in a row in which the same requests decode (seconds), endless.

        Override it if that is cheaper than a call for each step. The numbers must be those of
        ``step_time``, bit for bit.

        Args:
            num_decodes: The requests.
            context: Their contexts before the first step, summed (tokens).

        Cost class: once for many steps.
        """
        while True:
            yield self.step_time(StepShape(num_decodes, context))
            context += num_decodes


_LONGEST = 1 << 24
