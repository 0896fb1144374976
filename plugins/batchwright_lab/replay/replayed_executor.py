"""An executor that answers as recorded, in the time that was recorded or is estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from batchwright.messages import ModelOutput
from batchwright.protocols import Executor, ModelInfo, StepShape
from batchwright_lab.replay.recorded_answers import EOS, Answer, Answers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batchwright.context import Context
    from batchwright.messages import NewRequestData, SchedulerOutput
    from batchwright.protocols import ModelSettings

__all__ = ["ReplayedExecutor"]

_VOCAB_SIZE: Final = 2**32 - 1


class ReplayedExecutor(Executor):
    """Compute nothing. A step ends when it is known to; else an estimator says when.

    Attributes:
        answers: Tokens of live requests.
        known_ends: By step, when its results are there (seconds), where that is known.
        num_estimated: Steps whose time was estimated.
    """

    name = "replayed"

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.answers = Answers()
        self.known_ends: dict[int, float] = {}
        self.num_estimated = 0
        self._estimator = ctx.components["estimator"]
        self._known: dict[str, tuple[Answer, int]] = {}
        """By request that a plan may still compute, its answer and how much of it is out."""

    @property
    def output_oracle(self) -> Answers:
        return self.answers

    def load(self, settings: ModelSettings) -> ModelInfo:
        assert settings.max_model_len is not None, "the log says it"
        return ModelInfo(
            name=f"replayed, other step times by {self._estimator.name!r}",
            max_model_len=settings.max_model_len,
            vocab_size=_VOCAB_SIZE,
            eos_token_ids=(EOS,),
        )

    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        """Nothing is kept in blocks."""

    def restart(self) -> None:
        self._known.clear()

    def add_request(self, request: NewRequestData) -> None:
        num_known = len(request.prompt_token_ids) + len(request.output_token_ids)
        self._known[request.req_id] = self.answers[request.req_id], num_known

    def remove_request(self, request_id: str) -> None:
        self._known.pop(request_id, None)

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        starts = _starts(plan)
        self._pass_time(plan, starts)
        rows = [
            self._row(name, starts[name] + count)
            for name, count in plan.num_scheduled_tokens.items()
        ]
        return ModelOutput(list(plan.num_scheduled_tokens), rows)

    def _row(self, request_id: str, num_computed: int) -> list[int]:
        """The token behind the last known one, once that is computed."""
        answer, num_known = self._known[request_id]
        if num_computed < num_known:
            return []
        self._known[request_id] = answer, num_known + 1
        return [answer.at(num_known)]

    def _pass_time(self, plan: SchedulerOutput, starts: Mapping[str, int]) -> None:
        clock = self.ctx.clock
        end = self.known_ends.pop(plan.step_id, None)
        if end is None and not plan.is_empty:
            grants = plan.num_scheduled_tokens.items()
            shape = StepShape.of((count, starts[name]) for name, count in grants)
            end = clock.now() + self._estimator.step_time(shape)
            self.num_estimated += 1
        if end is not None:
            clock.wait_until(end)


def _starts(plan: SchedulerOutput) -> dict[str, int]:
    """By request of a plan, tokens that were computed before."""
    cached = plan.scheduled_cached_reqs
    starts = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return starts | {new.req_id: new.num_computed_tokens for new in plan.scheduled_new_reqs}
