"""An executor that computes nothing: a step takes as long as an estimator says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from attrs import define, frozen

from batchwright.exceptions import ConfigError
from batchwright.messages import ModelOutput
from batchwright.option import option
from batchwright.protocols import Executor, ModelInfo, StepShape

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.messages import SchedulerOutput
    from batchwright.protocols import Estimator, ModelSettings

__all__ = ["EOS", "KnownLengths", "Simulated"]

EOS: Final = 0
"""The token that ends a sequence."""

_VOCAB_SIZE: Final = 2**32 - 1


@frozen
class Options:
    """Options of the simulated executor."""

    max_model_len: int = option(1 << 20, "Longest sequence of the model.", unit="tokens", ge=2)
    kv_bytes_per_token: int = option(
        131_072, "What a token takes in the KV cache, for kv.memory.", unit="bytes", ge=1
    )


class KnownLengths:
    """True output lengths of live requests: the executor's, and an oracle's."""

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[int, int]] = {}

    def expect(self, request_id: str, num_output_tokens: int, token_id: int) -> None:
        """See ``batchwright.protocols.Truth``."""
        self._by_id[request_id] = num_output_tokens, token_id

    def output_tokens(self, request_id: str) -> int | None:
        """See ``batchwright.protocols.Truth``."""
        found = self._by_id.get(request_id)
        return None if found is None else found[0]

    def answer(self, request_id: str) -> tuple[int, int]:
        """Length and token of an answer; one that nobody expected never ends by itself."""
        found = self._by_id.get(request_id)
        return found or (0, 1 + crc32(request_id.encode()) % (_VOCAB_SIZE - 1))

    def forget(self, request_id: str) -> None:
        """See ``batchwright.protocols.Truth``."""
        self._by_id.pop(request_id, None)


@define(eq=False)
class _Sequence:
    """What the executor knows of a request.

    Args:
        num_prompt_tokens: Tokens of its prompt.
        num_known_tokens: Prompt and outputs, its own samples included.
        length: Known tokens at its end; 0: it does not end by itself.
        token_id: What it puts out until then.
        num_computed_tokens: Computed before the plan at hand.
    """

    num_prompt_tokens: int
    num_known_tokens: int
    length: int
    token_id: int
    num_computed_tokens: int


class Simulated(Executor):
    """Answers plans at once, and lets the clock go on by what a step would take.

    How long that is, an estimator says: the simulation's truth (``simulation.estimator``).
    A request repeats one token until its true length is reached, and then ends its
    sequence. On a clock that is not virtual it sleeps.
    """

    name = "simulated"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.lengths = KnownLengths()
        self._estimator: Estimator | None = ctx.parts.get("estimator")
        self._sequences: dict[str, _Sequence] = {}

    @property
    def truth(self) -> KnownLengths:
        return self.lengths

    def load(self, settings: ModelSettings) -> ModelInfo:
        """Load nothing.

        Raises:
            ConfigError: There is no estimator: this is no simulation.
        """
        if self._estimator is None:
            problem = f"executor {self.name!r} has no estimator; it works in simulations alone"
            raise ConfigError(problem, path="executor.use")
        return ModelInfo(
            name=f"simulated, step times by {self._estimator.name!r}",
            max_model_len=settings.max_model_len or self.options.max_model_len,
            vocab_size=_VOCAB_SIZE,
            eos_token_ids=(EOS,),
            kv_bytes_per_token=self.options.kv_bytes_per_token,
        )

    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        """Nothing is kept in blocks."""

    def restart(self) -> None:
        self._sequences.clear()

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        self._take_over(plan)
        output = ModelOutput()
        if plan.num_scheduled_tokens:
            self._pass_time(plan)
            output.req_ids = list(plan.num_scheduled_tokens)
            output.sampled_token_ids = self._sample(plan)
        return output

    def _take_over(self, plan: SchedulerOutput) -> None:
        """Bring what is known of the requests up to date."""
        for request_id in plan.finished_req_ids:
            self._sequences.pop(request_id, None)
            self.lengths.forget(request_id)
        for new in plan.scheduled_new_reqs:
            num_prompt = len(new.prompt_token_ids)
            length, token_id = self.lengths.answer(new.req_id)
            self._sequences[new.req_id] = _Sequence(
                num_prompt,
                num_prompt + len(new.output_token_ids),
                length and num_prompt + length,
                token_id,
                new.num_computed_tokens,
            )
        cached, sequences = plan.scheduled_cached_reqs, self._sequences
        for request_id, num_computed in zip(
            cached.req_ids, cached.num_computed_tokens, strict=True
        ):
            sequences[request_id].num_computed_tokens = num_computed
        for request_id in cached.resumed_req_ids:
            num_outputs = cached.num_output_tokens[cached.req_ids.index(request_id)]
            sequence = sequences[request_id]
            sequence.num_known_tokens = sequence.num_prompt_tokens + num_outputs

    def _pass_time(self, plan: SchedulerOutput) -> None:
        assert self._estimator is not None, "load() was called"
        sequences = self._sequences
        shape = StepShape.of(
            (num_tokens, sequences[request_id].num_computed_tokens)
            for request_id, num_tokens in plan.num_scheduled_tokens.items()
        )
        clock = self.ctx.clock
        clock.wait_until(clock.now() + self._estimator.step_time(shape))

    def _sample(self, plan: SchedulerOutput) -> list[list[int]]:
        """A token for each request whose last known token was computed; drafts are wrong."""
        rows: list[list[int]] = []
        drafts = plan.scheduled_draft_token_ids
        for request_id, num_tokens in plan.num_scheduled_tokens.items():
            sequence = self._sequences[request_id]
            computed = sequence.num_computed_tokens + num_tokens
            if drafts:
                computed -= len(drafts.get(request_id, ()))
            if computed < sequence.num_known_tokens:
                rows.append([])
                continue
            sequence.num_known_tokens += 1
            at_end = sequence.num_known_tokens == sequence.length
            rows.append([EOS if at_end else sequence.token_id])
        return rows
