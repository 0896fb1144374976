"""The engine: a scheduler and an executor, driven step by step."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from batchwright.clock import Clock, MonotonicClock
from batchwright.exceptions import OUTSIDE, ExecutorError, RequestRefusedError, StepError
from batchwright.messages import ModelOutput, RequestOutput, SchedulerOutput, StepOutputs
from batchwright.phases import BOOKKEEPING, SCHEDULING, Decisions, Phases
from batchwright.protocols import Executor, ModelInfo, SchedulerBase, Tokenizer
from batchwright.request import Request, RequestStatus
from batchwright.sampling_params import SamplingParams
from batchwright_engine.answer import Answer
from batchwright_engine.detokenizer import Detokenizer
from batchwright_engine.pipeline import BackgroundPipeline, Pipeline
from batchwright_engine.prompt import Prompt, encode, several, with_stop_ids

_log = logging.getLogger("batchwright.engine")

LONGEST_SLEEP: Final = 1.0
"""Seconds that a step sleeps at most, where only an event outside can go on."""
POLL: Final = 0.005
"""Seconds between two looks, where what is waited for tells nothing."""


class Engine:
    """Answers prompts with a real model. Synchronous: it computes when it is stepped.

    One thread drives it (``step``, ``generate``, ``close``); ``add`` and ``abort`` may be called
    from any thread, while a step goes on, too, and so may ``scheduler.signal`` and
    ``scheduler.signal``. If nothing can be computed before one of these is called, ``step``
    sleeps until it is, for a second at most.

    With ``scheduler.pipeline_depth`` over 1 it also computes between steps, if the executor
    allows that (``Executor.runs_in_background``).

    Args:
        scheduler: Decides.
        executor: Computes; loaded, its KV cache allocated.
        model: What the executor found out about its model.
        max_restarts: Failures of the executor in a row that are survived.

    Attributes:
        phases: What the time of steps went to.
        decisions: Wall-clock time of the scheduler's calls.
    """

    def __init__(
        self,
        scheduler: SchedulerBase,
        executor: Executor,
        model: ModelInfo,
        *,
        max_restarts: int = 3,
    ) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.model = model
        self.phases = executor.phases = Phases(scheduler.clock)
        self.decisions = Decisions()
        self._max_restarts = max_restarts
        self._num_failures = 0
        overlaps = scheduler.pipeline_depth > 1 and executor.runs_in_background
        self._pipeline = (BackgroundPipeline if overlaps else Pipeline)(executor, self.phases)
        self._answers: dict[str, Answer] = {}
        self._ids = itertools.count()
        self._lock = threading.RLock()  # of all that the scheduler and the answers hold
        self._driver = threading.Lock()  # held while a step goes on
        self._tells_sleep = False

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
        from batchwright.config import Config, load_config
        from batchwright_engine.assembly import EngineAssembly

        if isinstance(config, Mapping):
            return EngineAssembly(Config.from_dict(config), clock=clock).engine()
        return EngineAssembly(load_config(config, overrides), clock=clock).engine()

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
        """Submit a prompt; from any thread.

        Another thread waits while a step is planned or committed, not while it is computed.

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
        if params.stop:
            params = with_stop_ids(self.model, request_id, params)
        try:
            request = Request(
                request_id=request_id,
                prompt_token_ids=encode(self.tokenizer, request_id, prompt),
                sampling_params=params,
                eos_token_id=self.model.eos_token_ids,
                **fields,
            )
        except ValueError as error:  # of its token ids
            raise RequestRefusedError(request_id, str(error)) from error
        answer = Answer(request, self.tokenizer)
        with self._lock:
            self.submit(request)
            self._answers[request_id] = answer
        self.scheduler.bell.ring()
        return request_id

    def submit(self, request: Request) -> None:
        """Queue a request whose answer the caller collects from ``advance``.

        Raises:
            RequestRefusedError: It could never run, or a gate rejects it.
        """
        decisions = self.decisions
        began = decisions.now()
        try:
            self.scheduler.add_request(request)
        finally:
            decisions.seconds += decisions.now() - began

    def abort(self, request_ids: str | Iterable[str]) -> None:
        """End requests at once; unknown ids are ignored. From any thread."""
        with self._lock:
            self.scheduler.abort(request_ids)
        self.scheduler.bell.ring()

    def step(self) -> list[RequestOutput]:
        """Plan and compute one step.

        Returns:
            An output for every request that has new tokens or has ended.

        Raises:
            ExecutorError: The executor failed more than ``max_restarts`` times in a row.
            PluginError: A component failed too often in a row.
        """
        if not self._driver.acquire(blocking=False):
            raise StepError(
                "step() was called while another call of it went on, from another thread or "
                "from a component; one thread drives an engine, others add() and abort()"
            )
        try:
            num_rings = self.scheduler.bell.num_rings
            plan, outputs, given = self._advance()
            if outputs is None:
                return []
            if plan.is_empty and not outputs.finished and not self._pipeline.plans:
                self._wait(num_rings)
            elif not plan.is_empty:
                self._tells_sleep = False
            return given
        finally:
            self._driver.release()

    def advance(self) -> tuple[SchedulerOutput, StepOutputs | None]:
        """Plan and compute one step, without collecting outputs.

        Returns:
            The plan that was computed, and what it brought; None if the executor failed.

        Raises:
            ExecutorError: The executor failed more than ``max_restarts`` times in a row.
            PluginError: A component failed too often in a row.
        """
        plan, outputs, _ = self._advance()
        return plan, outputs

    def _advance(self) -> tuple[SchedulerOutput, StepOutputs | None, list[RequestOutput]]:
        # Without live requests only as much is planned as it takes to tell that they ended.
        pipeline = self._pipeline
        pipeline.start()
        with self._lock:
            depth = self.scheduler.pipeline_depth if self.scheduler.requests else 1
            while len(pipeline.plans) < depth:
                plan = self._plan()
                pipeline.lap(SCHEDULING)
                pipeline.put(plan)
                if plan.is_empty:
                    break
        return self._compute_next()

    def _plan(self) -> SchedulerOutput:
        decisions = self.decisions
        began = decisions.now()
        plan = self.scheduler.schedule()
        decisions.seconds += decisions.now() - began
        decisions.num_steps += 1
        return plan

    def _compute_next(
        self, *, is_step: bool = True
    ) -> tuple[SchedulerOutput, StepOutputs | None, list[RequestOutput]]:
        plan = self._pipeline.plans[0]
        output = self._execute(plan)
        if output is None:
            self._pipeline.lap(BOOKKEEPING)
            return plan, None, []
        decisions = self.decisions
        with self._lock:
            began = decisions.now()
            outputs = self.scheduler.update_from_output(plan, output)
            decisions.seconds += decisions.now() - began
            if is_step:
                self._pipeline.lap(BOOKKEEPING)
            # Before the lock is left: an id whose end is told may be used again.
            return plan, outputs, self._collect(outputs) if self._answers else []

    def generate(
        self,
        prompts: Prompt | Iterable[Prompt],
        sampling_params: SamplingParams | Iterable[SamplingParams] | None = None,
    ) -> Iterator[RequestOutput]:
        """Answer prompts; yields each request's final output when it ends.

        However it is left (all are answered, one is refused, an executor gives up, the
        caller stops asking), none of its requests goes on.

        Args:
            prompts: What to answer: several, or a single one.
            sampling_params: One for all, or one for each.

        Raises:
            TypeError: The prompts are none.
            ValueError: There are more or fewer sampling parameters than prompts.
            RequestRefusedError: One of the prompts could never run.
        """
        asked = several(prompts)
        if sampling_params is None or isinstance(sampling_params, SamplingParams):
            params = [sampling_params] * len(asked)
        else:
            params = list(sampling_params)
        if len(params) != len(asked):
            raise ValueError(
                f"generate() got {len(asked)} prompts and {len(params)} sampling parameters; "
                "give one for all, or one for each"
            )
        return self._generate(asked, params)

    def _generate(
        self, prompts: Sequence[Prompt], params: Sequence[SamplingParams | None]
    ) -> Iterator[RequestOutput]:
        mine: dict[str, None] = {}
        ended: deque[RequestOutput] = deque()
        try:
            for prompt, each in zip(prompts, params, strict=True):
                request_id = self.add(prompt, each)
                mine[request_id] = None
                self._answers[request_id].ended = ended
            while mine:
                self.step()
                while ended:  # in this step, or in one of the caller's since the last answer
                    output = ended.popleft()
                    del mine[output.request_id]
                    yield output
        finally:
            for request_id in mine:  # of those that ended in the last step, too
                self._answers.pop(request_id, None)
            self.abort(mine)
        while self._pipeline.plans and not self.scheduler.requests:
            # No caller wants its results, but it holds blocks. Its time is of no step.
            self._compute_next(is_step=False)

    def measure_limits(self, num_rows: int) -> Mapping[str, float]:
        """What the machine allows; see ``Executor.measure_limits``."""
        return self._pipeline.call(lambda: self.executor.measure_limits(num_rows))

    def close(self) -> None:
        """Let components and executor release what they hold.

        A step that is being computed is waited for; those behind it are dropped.

        Raises:
            StepError: A step goes on, in another thread or around this call.
        """
        if not self._driver.acquire(blocking=False):
            raise StepError(
                "close() was called while step() went on, in another thread or around it; "
                "the thread that drives an engine closes it, between steps"
            )
        try:
            self._pipeline.close()
            self.scheduler.close()
            self.executor.close()
        finally:
            self._driver.release()

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
            with self._lock:
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

    def _wait(self, num_rings: int) -> None:
        """Nothing could be computed: sleep until a notice, a request or an abort comes.

        At most until the next alarm, and at most a second, so that what drives the engine
        may look at other things.

        Args:
            num_rings: Rings of the scheduler's bell before the step was planned.
        """
        scheduler, clock, seconds = self.scheduler, self.scheduler.clock, LONGEST_SLEEP
        if scheduler.has_signals:
            return  # some request was woken
        alarm, awaits_outside = scheduler.next_timer, scheduler.awaits_outside
        if alarm is not None and not isinstance(clock, MonotonicClock):
            clock.wait_until(alarm)
            return
        if alarm is not None:
            seconds = max(0.0, min(seconds, alarm - clock.now()))
        elif awaits_outside and not self._tells_sleep:
            self._tells_sleep = True
            _log.warning("nothing can be computed before an event outside: %s", self._waiting())
        if self.executor.has_worker_sides or scheduler.awaits_resource or scheduler.view.is_paused:
            seconds = min(seconds, POLL)  # what comes of it rings no bell
        elif alarm is None and not awaits_outside:
            return  # the progress guard will step in
        scheduler.bell.wait(num_rings, seconds)

    def _waiting(self) -> str:
        """Some requests that wait, and why."""
        requests = list(self.scheduler.requests.values())[:5]
        return ", ".join(f"{r.request_id} ({r.waiting_reason})" for r in requests)

    def _collect(self, step: StepOutputs) -> list[RequestOutput]:
        """Make outputs of what a step brought."""
        tokens = dict(zip(step.req_ids, step.new_token_ids, strict=True))
        for request_id in step.finished:
            tokens.setdefault(request_id, [])
        outputs = []
        for request_id, new in tokens.items():
            answer = self._answers.get(request_id)
            if answer is None:
                continue  # it was added to the scheduler directly
            self._extend(answer, new, step)
            if request_id in step.finished:
                finish = step.finished[request_id]
                answer.end(finish.reason, finish.detail)
            output = answer.give()
            outputs.append(output)
            if output.finish_reason is not None:
                del self._answers[request_id]
                if answer.ended is not None:
                    answer.ended.append(output)
        return outputs

    def _extend(self, answer: Answer, tokens: list[int], step: StepOutputs) -> None:
        """Add a step's tokens to an answer; end the request if its text has ended, or fails."""
        request_id = answer.request.request_id
        try:
            answer.extend(tokens, step.logprobs.get(request_id))
            stop = answer.text.stopped_by
        except OUTSIDE:
            raise
        except BaseException as error:  # one request's fault alone
            _log.warning("request %r: its text cannot be made", request_id, exc_info=error)
            detail = f"its text cannot be made: {type(error).__name__}: {error}"
            answer.text = Detokenizer(None)
            self.scheduler.finish(request_id, RequestStatus.FINISHED_ERROR, detail)
            answer.end("error", detail)
            return
        if stop is not None:
            detail = f"stop_string:{stop}"
            self.scheduler.finish(request_id, RequestStatus.FINISHED_STOPPED, detail)
            answer.end("stop", detail)
