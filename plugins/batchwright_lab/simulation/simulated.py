"""An executor that computes nothing: a step takes as long as an estimator says."""

from __future__ import annotations

from array import array
from operator import sub
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.messages import ModelOutput
from batchwright.option import option
from batchwright.protocols import Executor, ModelInfo, StepShape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batchwright.context import Context
    from batchwright.messages import NewRequestData, SchedulerOutput
    from batchwright.protocols import Estimator, ModelSettings

__all__ = ["EOS", "KnownLengths", "Simulated"]

MOST_STEPS: Final = 128
"""Steps that are computed at once, at most."""
EOS: Final = 0
"""The token that ends a sequence."""

_VOCAB_SIZE: Final = 2**32 - 1
_ENDLESS: Final = 1 << 62
_END: Final = [EOS]
_LAST: Final = 2
"""Length minus computed tokens of a decode that samples its last token."""

Visit = tuple[int, int, int]
"""Of a request that may do more than decode: its place in the step, tokens, drafts of them."""


@frozen
class Options:
    """Options of the simulated executor."""

    max_model_len: int = option(1 << 20, "Longest sequence of the model.", unit="tokens", ge=2)
    kv_bytes_per_token: int = option(
        131_072, "Size of a token in the KV cache, for kv.memory.", unit="bytes", ge=1
    )


class KnownLengths:
    """True output lengths of live requests: the executor's, and an oracle's."""

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[int, int]] = {}

    def expect(self, request_id: str, num_output_tokens: int, token_id: int) -> None:
        """See ``batchwright.protocols.OutputOracle``."""
        self._by_id[request_id] = num_output_tokens, token_id

    def output_tokens(self, request_id: str) -> int | None:
        """See ``batchwright.protocols.OutputOracle``."""
        found = self._by_id.get(request_id)
        return None if found is None else found[0]

    def answer(self, request_id: str) -> tuple[int, int]:
        """Length and token of an answer; one that was not expected never ends by itself."""
        found = self._by_id.get(request_id)
        return found or (0, 1 + crc32(request_id.encode()) % (_VOCAB_SIZE - 1))

    def forget(self, request_id: str) -> None:
        """See ``batchwright.protocols.OutputOracle``."""
        self._by_id.pop(request_id, None)


class Simulated(Executor):
    """An executor that answers plans at once, and moves the clock by the time of the step.

    An estimator gives that time: the true one of the simulation (``simulation.estimator``). A
    request repeats one token until its true length is reached, and then ends its sequence. On a
    clock that is not virtual the executor sleeps.
    """

    name = "simulated"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.lengths = KnownLengths()
        self._estimator: Estimator | None = None
        self._num_prompt_tokens: dict[str, int] = {}
        self._length_of: dict[str, int] = {}
        """By request, known tokens at its end."""
        self._row_of: dict[str, list[int]] = {}
        """By request, an answer of the token that it repeats."""
        self._page_of: dict[str, array[int]] = {}
        """By request, the token that it repeats, as often as it may be computed at once."""
        self._behind: dict[str, int] = {}
        """Tokens known of requests that are still being computed up to the last of them."""

        self._tables: tuple[dict[str, Any], ...] = (
            self._num_prompt_tokens,
            self._length_of,
            self._row_of,
            self._page_of,
            self._behind,
        )

    @property
    def output_oracle(self) -> KnownLengths:
        return self.lengths

    def load(self, settings: ModelSettings) -> ModelInfo:
        """Load nothing.

        Raises:
            ConfigError: There is no estimator: this is no simulation.
        """
        self._estimator = self.ctx.components.get("estimator")
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
        for table in self._tables:
            table.clear()

    def add_request(self, request: NewRequestData) -> None:
        request_id, num_prompt = request.req_id, len(request.prompt_token_ids)
        length, token_id = self.lengths.answer(request_id)
        row = [token_id]
        self._page_of[request_id] = array("I", row) * MOST_STEPS
        self._row_of[request_id] = row
        self._num_prompt_tokens[request_id] = num_prompt
        self._length_of[request_id] = num_prompt + length if length else _ENDLESS
        self._behind[request_id] = num_prompt + len(request.output_token_ids)

    def remove_request(self, request_id: str) -> None:
        for table in self._tables:
            table.pop(request_id, None)
        self.lengths.forget(request_id)

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        if not plan.num_scheduled_tokens:
            return ModelOutput()
        ids, computed = self._take_over(plan)
        visits = self._visits(plan, ids)
        self._pass_time(computed, visits)
        return ModelOutput(ids, self._sample(ids, computed, visits))

    def fast_forward(
        self, num_tokens: Mapping[str, int], max_steps: int, until: float
    ) -> tuple[list[array[int]], list[int], float]:
        assert self._estimator is not None, "load() was called"
        num_requests, known = len(num_tokens), num_tokens.values()
        # Tokens that each still puts out: a loop in C, since this is done at every event.
        lefts = list(map(sub, map(self._length_of.__getitem__, num_tokens), known))
        shortest = min(lefts)
        most = min(max_steps, MOST_STEPS, shortest)
        clock = self.ctx.clock
        begin = now = clock.now()
        num_steps = 0
        for seconds in self._estimator.decode_times(num_requests, sum(known) - num_requests):
            begin = now
            now += seconds  # one by one, as stepping does: sums of floats depend on it
            num_steps += 1
            if num_steps == most or now >= until:
                break
        clock.wait_until(now)
        page_of = self._page_of
        pieces = [page_of[request_id][:num_steps] for request_id in num_tokens]
        ends = []
        if num_steps == shortest:
            ends = [at for at, left in enumerate(lefts) if left == num_steps]
            for at in ends:
                pieces[at][-1] = EOS
        return pieces, ends, begin

    def _take_over(self, plan: SchedulerOutput) -> tuple[list[str], list[int]]:
        """Bring what is known of the requests up to date.

        Returns:
            The plan's requests, and of each, tokens that were computed before.
        """
        cached = plan.scheduled_cached_reqs
        ids, computed = cached.req_ids.copy(), cached.num_computed_tokens.copy()
        for request_id in cached.resumed_req_ids:
            num_outputs = cached.num_output_tokens[ids.index(request_id)]
            self._behind[request_id] = self._num_prompt_tokens[request_id] + num_outputs
        for new in plan.scheduled_new_reqs:
            ids.append(new.req_id)
            computed.append(new.num_computed_tokens)
        return ids, computed

    def _visits(self, plan: SchedulerOutput, ids: list[str]) -> list[Visit]:
        """Return the requests that may do more than decode: few of all."""
        grants, drafts = plan.num_scheduled_tokens, plan.scheduled_draft_token_ids
        return [
            (ids.index(request_id), grants[request_id], len(drafts.get(request_id, ())))
            for request_id in dict.fromkeys((*self._behind, *drafts))
            if request_id in grants
        ]

    def _pass_time(self, computed: list[int], visits: list[Visit]) -> None:
        assert self._estimator is not None, "load() was called"
        num_decodes, context = len(computed), sum(computed)
        num_prefills, num_prefill_tokens, attention = 0, 0, 0.0
        for at, grant, _ in visits:
            if grant > 1:
                start = computed[at]
                num_prefills += 1
                num_prefill_tokens += grant
                context -= start
                attention += grant * (start + grant / 2)
        num_decodes -= num_prefills
        shape = StepShape(num_decodes, context, num_prefills, num_prefill_tokens, attention)
        clock = self.ctx.clock
        clock.wait_until(clock.now() + self._estimator.step_time(shape))

    def _sample(self, ids: list[str], computed: list[int], visits: list[Visit]) -> list[list[int]]:
        """A token for each request whose last known token was computed; drafts are wrong."""
        rows = list(map(self._row_of.__getitem__, ids))
        lefts = list(map(sub, map(self._length_of.__getitem__, ids), computed))
        if _LAST in lefts:
            rows = [_END if left == _LAST else row for row, left in zip(rows, lefts, strict=True)]
        for at, grant, num_drafts in visits:
            rows[at] = self._row(ids[at], computed[at] + grant - num_drafts)
        return rows

    def _row(self, request_id: str, computed: int) -> list[int]:
        """The answer to a request of which so many tokens are computed now."""
        if computed < self._behind.get(request_id, 0):
            return []
        self._behind.pop(request_id, None)
        at_end = computed + 1 == self._length_of[request_id]
        return _END if at_end else self._row_of[request_id]
