"""The engine: a scheduler and an executor, driven step by step."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from batchwright.detokenizer import Detokenizer
from batchwright.exceptions import BatchwrightError, ExecutorError, RequestRefusedError
from batchwright.messages import ModelOutput, RequestOutput, SchedulerOutput, StepOutputs
from batchwright.metrics import RequestTimes
from batchwright.request import Request, RequestStatus
from batchwright.sampling_params import SamplingParams

if TYPE_CHECKING:
    from pathlib import Path

    from batchwright.clock import Clock
    from batchwright.protocols import Executor, ModelInfo, Tokenizer
    from batchwright.scheduler import Scheduler


_log = logging.getLogger("batchwright.engine")

Prompt = str | Sequence[int] | Sequence[Mapping[str, str]]
"""Text, token ids, or a conversation (``{"role": ..., "content": ...}``)."""


class Engine:
    """Answers prompts with a real model. Synchronous: it computes when it is stepped.

    Args:
        scheduler: Decides.
        executor: Computes; loaded, its KV cache allocated.
        model: What the executor found out about its model.
        max_restarts: Failures of the executor in a row that are survived.
    """

    def __init__(
        self, scheduler: Scheduler, executor: Executor, model: ModelInfo, *, max_restarts: int = 3
    ) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.model = model
        self._max_restarts = max_restarts
        self._num_failures = 0
        self._pending: deque[SchedulerOutput] = deque()
        self._outputs: dict[str, RequestOutput] = {}
        self._requests: dict[str, Request] = {}
        self._texts: dict[str, Detokenizer] = {}
        self._next_id = 0

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
        from batchwright.assembly import engine_from_config

        return engine_from_config(config, overrides=overrides, clock=clock)

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
            request_id = f"request-{self._next_id}"
            self._next_id += 1
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
        self._requests[request_id] = request
        self._outputs[request_id] = RequestOutput(request_id=request_id)
        if self.tokenizer is not None:
            self._texts[request_id] = Detokenizer(self.tokenizer, params.stop, params.min_tokens)
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
        self._plan_ahead()
        return self._compute_next()

    def _plan_ahead(self) -> None:
        """Fill the pipeline."""
        while len(self._pending) < self.scheduler.pipeline_depth:
            plan = self.scheduler.schedule()
            self._pending.append(plan)
            if plan.is_empty:
                return

    def _compute_next(self) -> list[RequestOutput]:
        plan = self._pending[0]
        output = self._execute(plan)
        if output is None:
            return []
        self._pending.popleft()
        step = self.scheduler.update_from_output(plan, output)
        if plan.is_empty and not step.finished and not self._pending:
            self._wait()
        return self._collect(step)

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
        params = (
            list(sampling_params)
            if isinstance(sampling_params, Sequence)
            else [sampling_params] * len(prompts)
        )
        mine = {self.add(p, s) for p, s in zip(prompts, params, strict=True)}
        while mine:
            for output in self.step():
                if output.finished and output.request_id in mine:
                    mine.remove(output.request_id)
                    yield output
        while self._pending and not self.scheduler.requests:
            self._compute_next()  # nobody wants its results, but it holds blocks

    def close(self) -> None:
        """Let components and executor release what they hold."""
        self.scheduler.close()
        self.executor.close()

    def _encode(self, request_id: str, prompt: Prompt) -> Sequence[int]:
        if isinstance(prompt, str) or (prompt and isinstance(prompt[0], Mapping)):
            if self.tokenizer is None:
                raise RequestRefusedError(request_id, "the model has no tokenizer; give token ids")
            if isinstance(prompt, str):
                return self.tokenizer.encode(prompt)
            return self.tokenizer.encode_chat(prompt)  # type: ignore[arg-type]
        return prompt  # type: ignore[return-value]

    def _execute(self, plan: SchedulerOutput) -> ModelOutput | None:
        """Compute a plan; None if the executor failed and was restarted.

        Raises:
            ExecutorError: It failed too often in a row.
        """
        try:
            output = self.executor.execute(plan)
        except Exception as error:
            self._num_failures += 1
            label = self.executor.ctx.label
            if self._num_failures > self._max_restarts:
                raise ExecutorError(
                    f"{label} failed {self._num_failures} times in a row; last in step "
                    f"{plan.step_id}: {type(error).__name__}: {error} "
                    "(executor.max_restarts)"
                ) from error
            _log.warning(
                "%s failed in step %d (%s: %s); every request in flight is put back",
                label,
                plan.step_id,
                type(error).__name__,
                error,
            )
            self._pending.clear()
            self.scheduler.recover()
            self.executor.restart()
            return None
        if not plan.is_empty:
            self._num_failures = 0
        return output

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
        view = self.scheduler.view
        if view.num_parked and view.num_parked == view.num_waiting and not view.num_running:
            parked = [
                f"{r.request_id} ({r.waiting_reason})" for r in self.scheduler.requests.values()
            ]
            raise BatchwrightError(
                "every request is parked, and nothing here will wake one: "
                f"{', '.join(parked[:5])}; call scheduler.notify(key) before step()"
            )

    def _collect(self, step: StepOutputs) -> list[RequestOutput]:
        """Make outputs of what a step brought."""
        touched: dict[str, RequestOutput] = {}
        for request_id, tokens in zip(step.req_ids, step.new_token_ids, strict=True):
            output = self._outputs.get(request_id)
            if output is not None:
                touched[request_id] = output
                self._extend(output, tokens, step)
        self._end_stopped(touched)
        for request_id, finish in step.finished.items():
            output = touched.get(request_id) or self._outputs.get(request_id)
            if output is not None and output.finish_reason is None:
                touched[request_id] = output
                output.finish_reason, output.detail = finish.reason, finish.detail
        for request_id, output in touched.items():
            self._fill_text(output)
            if output.finished:
                output.metrics = _metrics(self._requests.pop(request_id))
                self._outputs.pop(request_id)
                self._texts.pop(request_id, None)
        return list(touched.values())

    def _extend(self, output: RequestOutput, tokens: list[int], step: StepOutputs) -> None:
        output.new_token_ids = tokens
        output.token_ids.extend(tokens)
        logprobs = step.logprobs.get(output.request_id)
        if logprobs is not None:
            output.logprobs = [*(output.logprobs or ()), *logprobs[: len(tokens)]]
        text = self._texts.get(output.request_id)
        if text is not None:
            text.append(tokens)

    def _end_stopped(self, touched: dict[str, RequestOutput]) -> None:
        """End requests in whose text a stop string has appeared."""
        for request_id, output in touched.items():
            text = self._texts.get(request_id)
            if text is None or text.stopped_by is None:
                continue
            detail = f"stop_string:{text.stopped_by}"
            self.scheduler.finish(request_id, RequestStatus.FINISHED_STOPPED, detail)
            output.finish_reason, output.detail = "stop", detail

    def _fill_text(self, output: RequestOutput) -> None:
        text = self._texts.get(output.request_id)
        if text is not None:
            output.new_text = text.take(final=output.finished)
            output.text += output.new_text


def _metrics(request: Request) -> dict[str, float | int | None]:
    """Timings (seconds on the scheduler's clock) and counts of an ended request."""
    times = RequestTimes.of(request.view)
    return {
        "queue_time_s": times.queue_time,
        "ttft_s": times.ttft,
        "tpot_s": times.tpot,
        "e2e_s": times.e2e,
        "num_prompt_tokens": request.num_prompt_tokens,
        "num_output_tokens": request.num_output_tokens,
        "num_cached_tokens": request.num_cached_tokens,
        "num_preemptions": request.num_preemptions,
        "num_recomputed_tokens": request.num_recomputed_tokens,
    }
