"""The engine: a scheduler and an executor, driven step by step."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from batchwright.chat import MessageError, normalize_messages
from batchwright.clock import Clock
from batchwright.detokenizer import Detokenizer
from batchwright.exceptions import BatchwrightError, ExecutorError, RequestRefusedError
from batchwright.messages import (
    ModelOutput,
    RequestOutput,
    SchedulerOutput,
    StepOutputs,
    TokenLogprobs,
)
from batchwright.metrics import RequestTimes
from batchwright.phases import BOOKKEEPING, SCHEDULING, Phases
from batchwright.pipeline import BackgroundPipeline, Pipeline
from batchwright.protocols import Executor, ModelInfo, Tokenizer
from batchwright.protocols.component import overrides
from batchwright.request import Finish, Request, RequestStatus
from batchwright.sampling_params import SamplingParams
from batchwright.scheduler import Scheduler

_log = logging.getLogger("batchwright.engine")

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""Text, token ids, or a conversation (``{"role": ..., "content": ...}``)."""


class Engine:
    """Answers prompts with a real model. Synchronous: it computes when it is stepped.

    With ``scheduler.pipeline_depth`` over 1 it also computes between steps, if the executor
    allows that (``Executor.runs_in_background``).

    Args:
        scheduler: Decides.
        executor: Computes; loaded, its KV cache allocated.
        model: What the executor found out about its model.
        max_restarts: Failures of the executor in a row that are survived.

    Attributes:
        phases: What the time of steps went to.
    """

    def __init__(
        self, scheduler: Scheduler, executor: Executor, model: ModelInfo, *, max_restarts: int = 3
    ) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.model = model
        self.phases = executor.phases = Phases(scheduler.clock)
        self._max_restarts = max_restarts
        self._num_failures = 0
        self._leaps = overrides(executor, "leap") and not executor.has_halves
        overlaps = scheduler.pipeline_depth > 1 and executor.runs_in_background
        self._pipeline = (BackgroundPipeline if overlaps else Pipeline)(executor, self.phases)
        self._answers: dict[str, _Answer] = {}
        self._ids = itertools.count()

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any] | str | Path,
        *,
        overrides: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> Engine:
        """Build everything that a configuration names, and load the model.

        Args:
            config: A TOML file, or its structure as a dict.
            overrides: ``key.path=value``, applied to the file.
            clock: Defaults to the machine's monotonic clock.

        Raises:
            ConfigError: The configuration cannot be used.
            PluginError: A component that it selects cannot be had.
            ModelError: The model cannot be loaded or served.
        """
        from batchwright.assembly import Assembly
        from batchwright.config import Config, load_config

        if isinstance(config, Mapping):
            return Assembly(Config.from_dict(config), clock=clock).engine()
        return Assembly(load_config(config, overrides), clock=clock).engine()

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self.model.tokenizer

    @property
    def has_unfinished(self) -> bool:
        """Whether any request has not ended, or its end was not told."""
        return self.scheduler.has_unfinished

    def add(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        *,
        request_id: str | None = None,
        **fields: Any,
    ) -> str:
        """Submit a prompt.

        Args:
            prompt: Text, token ids or a conversation.
            sampling_params: How to sample and when to stop.
            request_id: Unique among live requests; None makes one.
            fields: Other fields of Request: priority, client, deadline, hints, ...

        Returns:
            The request's id.

        Raises:
            RequestRefusedError: It could never run, or a gate rejects it.
        """
        if request_id is None:
            request_id = f"request-{next(self._ids)}"
        params = sampling_params or SamplingParams()
        if params.stop and self.tokenizer is None:
            raise RequestRefusedError(request_id, "stop strings need a model with a tokenizer")
        request = Request(
            request_id=request_id,
            prompt_token_ids=self._encode(request_id, prompt),
            sampling_params=params,
            eos_token_id=self.model.eos_token_ids,
            **fields,
        )
        self.scheduler.add_request(request)
        self._answers[request_id] = _Answer(request, self.tokenizer)
        return request_id

    def abort(self, request_ids: str | Iterable[str]) -> None:
        """End requests at once; unknown ids are ignored."""
        self.scheduler.abort(request_ids)

    def step(self) -> list[RequestOutput]:
        """Plan and compute one step.

        Returns:
            An output for every request that has new tokens or has ended.

        Raises:
            ExecutorError: The executor failed ``max_restarts`` times in a row.
            PluginError: A component failed too often in a row.
        """
        plan, outputs = self.advance()
        if outputs is None:
            return []
        if plan.is_empty and not outputs.finished and not self._pipeline.plans:
            self._wait()
        return self._collect(outputs)

    def advance(self) -> tuple[SchedulerOutput, StepOutputs | None]:
        """Plan and compute one step, without a word to those who asked.

        Returns:
            The plan that was computed, and what it brought; None if the executor failed.

        Raises:
            ExecutorError: The executor failed ``max_restarts`` times in a row.
            PluginError: A component failed too often in a row.
        """
        # Without live requests only as much is planned as it takes to tell that they ended.
        pipeline = self._pipeline
        pipeline.start()
        depth = self.scheduler.pipeline_depth if self.scheduler.requests else 1
        while len(pipeline.plans) < depth:
            plan = self.scheduler.schedule()
            pipeline.lap(SCHEDULING)
            pipeline.put(plan)
            if plan.is_empty:
                break
        outputs = self._compute_next()
        pipeline.lap(BOOKKEEPING)
        return outputs

    def _compute_next(self) -> tuple[SchedulerOutput, StepOutputs | None]:
        plan = self._pipeline.plans[0]
        output = self._execute(plan)
        if output is None:
            return plan, None
        return plan, self.scheduler.update_from_output(plan, output)

    def leap(self, until: float) -> dict[str, Finish] | None:
        """Compute many steps at once, as far as nothing is decided in them.

        Args:
            until: No step begins at that time or later (seconds).

        Returns:
            By request, how it has ended; None if the next step is one to ``advance``.
        """
        if not self._leaps or self._pipeline.plans:
            return None
        leap = self.scheduler.plan_leap(until)
        if leap is None:
            return None
        return self.scheduler.commit_leap(leap, self.executor.leap(leap))

    def generate(
        self,
        prompts: Iterable[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> Iterator[RequestOutput]:
        """Answer prompts; yields each request's final output when it ends.

        Args:
            prompts: What to answer.
            sampling_params: One for all, or one for each.

        Raises:
            RequestRefusedError: One of the prompts could never run.
        """
        prompts = list(prompts)
        if not isinstance(sampling_params, Sequence):
            sampling_params = [sampling_params or SamplingParams()] * len(prompts)
        mine = {self.add(p, s) for p, s in zip(prompts, sampling_params, strict=True)}
        while mine:
            for output in self.step():
                if output.finished and output.request_id in mine:
                    mine.remove(output.request_id)
                    yield output
        while self._pipeline.plans and not self.scheduler.requests:
            _, outputs = self._compute_next()  # nobody wants its results, but it holds blocks
            self._collect(outputs or StepOutputs(0))

    def measure_limits(self, num_rows: int) -> Mapping[str, float]:
        """What the machine allows; see ``Executor.measure_limits``."""
        return self._pipeline.call(lambda: self.executor.measure_limits(num_rows))

    def close(self) -> None:
        """Let components and executor release what they hold.

        A step that is being computed is waited for; those behind it are dropped.
        """
        self._pipeline.close()
        self.scheduler.close()
        self.executor.close()

    def _encode(self, request_id: str, prompt: Prompt) -> Sequence[int]:
        if isinstance(prompt, str) or (prompt and isinstance(prompt[0], Mapping)):
            if self.tokenizer is None:
                raise RequestRefusedError(request_id, "the model has no tokenizer; give token ids")
            try:
                if isinstance(prompt, str):
                    return self.tokenizer.encode(prompt)
                return self.tokenizer.encode_chat(normalize_messages(prompt))
            except BatchwrightError:
                raise
            except MessageError as error:
                raise RequestRefusedError(request_id, str(error)) from error
            except Exception as error:  # e.g. a lone surrogate; one request's fault alone
                reason = f"its prompt cannot be tokenized: {type(error).__name__}: {error}"
                raise RequestRefusedError(request_id, reason) from error
        return prompt  # type: ignore[return-value]

    def _execute(self, plan: SchedulerOutput) -> ModelOutput | None:
        """Compute a plan; None if the executor failed and was restarted.

        Raises:
            ExecutorError: It failed too often in a row.
        """
        try:
            output = self._pipeline.take()
        except Exception as error:
            self._failed(f"in step {plan.step_id}", error)
            self._pipeline.clear()
            self.scheduler.recover()
            self._restart()
            return None
        if not plan.is_empty:
            self._num_failures = 0
        return output

    def _restart(self) -> None:
        """Restart the executor, as often as it may fail.

        Raises:
            ExecutorError: It failed too often in a row.
        """
        while True:
            try:
                return self._pipeline.call(self.executor.recover)
            except Exception as error:
                self._failed("in restart()", error)

    def _failed(self, where: str, error: Exception) -> None:
        """Count a failure of the executor.

        Raises:
            ExecutorError: It is one too many in a row.
        """
        self._num_failures += 1
        label, what = self.executor.ctx.label, f"{type(error).__name__}: {error}"
        if self._num_failures > self._max_restarts:
            raise ExecutorError(
                f"{label} failed {self._num_failures} times in a row; last {where}: {what} "
                "(executor.max_restarts)"
            ) from error
        message = "%s failed %s (%s); every request in flight is put back"
        _log.warning(message, label, where, what)

    def _wait(self) -> None:
        """Nothing could be computed: wait for an alarm, if one is set.

        Raises:
            BatchwrightError: Requests are parked, and no alarm will wake anybody: only
                a notice from outside can, which does not come while we wait.
        """
        alarm = self.scheduler.next_alarm
        if alarm is not None:
            self.scheduler.clock.wait_until(alarm)
            return
        if self.scheduler.has_notices or self.executor.has_halves:
            return  # somebody was woken, or may be with what comes of the next plan
        view = self.scheduler.view
        if view.num_parked and view.num_parked == view.num_waiting and not view.num_running:
            requests = list(self.scheduler.requests.values())[:5]
            parked = ", ".join(f"{r.request_id} ({r.waiting_reason})" for r in requests)
            raise BatchwrightError(
                "every request is parked, and nothing here will wake one: "
                f"{parked}; call scheduler.notify(key) before step()"
            )

    def _collect(self, step: StepOutputs) -> list[RequestOutput]:
        """Make outputs of what a step brought."""
        tokens = dict(zip(step.req_ids, step.new_token_ids, strict=True))
        for request_id in step.finished:
            tokens.setdefault(request_id, [])
        outputs = []
        for request_id, new in tokens.items():
            answer = self._answers.get(request_id)
            if answer is None:
                continue  # it was added to the scheduler by somebody else
            answer.extend(new, step.logprobs.get(request_id))
            if answer.text.stopped_by is not None:
                detail = f"stop_string:{answer.text.stopped_by}"
                self.scheduler.finish(request_id, RequestStatus.FINISHED_STOPPED, detail)
                answer.end("stop", detail)
            if request_id in step.finished:
                finish = step.finished[request_id]
                answer.end(finish.reason, finish.detail)
            output = answer.give()
            outputs.append(output)
            if output.finish_reason is not None:
                del self._answers[request_id]
        return outputs


class _Answer:
    """A request on its way: its output so far, and the text in the making."""

    def __init__(self, request: Request, tokenizer: Tokenizer | None) -> None:
        params = request.sampling_params
        self.request = request
        self.output = RequestOutput(request_id=request.request_id)
        self.text = Detokenizer(tokenizer, params.stop, params.min_tokens)

    def extend(self, tokens: list[int], logprobs: Sequence[TokenLogprobs] | None) -> None:
        """Take in a step's new tokens."""
        output = self.output
        output.new_token_ids = tokens
        output.token_ids.extend(tokens)
        if logprobs:
            output.logprobs = [*(output.logprobs or ()), *logprobs[: len(tokens)]]
        self.text.append(tokens)

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
            output.metrics = _metrics(self.request)
        return output


_COUNTS = (
    "num_prompt_tokens",
    "num_output_tokens",
    "num_cached_tokens",
    "num_preemptions",
    "num_recomputed_tokens",
)


def _metrics(request: Request) -> dict[str, float | int | None]:
    """Timings (seconds on the scheduler's clock) and counts of an ended request."""
    times = attrs.asdict(RequestTimes.of(request.view))
    counts = {name: getattr(request, name) for name in _COUNTS}
    return {**{f"{name}_s": time for name, time in times.items()}, **counts}
