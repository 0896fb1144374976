"""The engine: a scheduler and an executor, driven step by step."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from batchwright.clock import Clock
from batchwright.exceptions import StepError
from batchwright.messages import ModelOutput, RequestOutput, SchedulerOutput, StepOutputs
from batchwright.protocols import Executor, ModelInfo, SchedulerBase, Tokenizer
from batchwright.request import Request
from batchwright.sampling_params import SamplingParams
from batchwright_engine.answer import Answer
from batchwright_engine.answers import Answers
from batchwright_engine.generation import answered
from batchwright_engine.idle_engine import IdleEngine
from batchwright_engine.phases import BOOKKEEPING, SCHEDULING, Decisions, Phases
from batchwright_engine.pipeline import BackgroundPipeline, Pipeline
from batchwright_engine.prompt import Prompt, make_request, paired
from batchwright_engine.restarts import Restarts

T = TypeVar("T")


class Engine:
    """Answer prompts with a real model. Synchronous: it computes when it is stepped.

    One thread drives it (``step``, ``generate``, ``close``); ``add`` and ``abort`` may be called
    from any thread, while a step goes on, too, and so may ``scheduler.signal``. If nothing can be
    computed before one of these is called, ``step`` sleeps until it is, for a second at most.

    With ``scheduler.pipeline_depth`` over 1 it also computes between steps, if the executor
    allows that (``Executor.runs_in_background``).

    Args:
        scheduler: Decides.
        executor: Computes; loaded, its KV cache allocated.
        model: Facts about the executor's model.
        max_restarts: Failures of the executor in a row that are survived.

    Attributes:
        phases: Time of the parts of steps.
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
        self._restarts = Restarts(executor, max_restarts)
        overlaps = scheduler.pipeline_depth > 1 and executor.runs_in_background
        self._pipeline = (BackgroundPipeline if overlaps else Pipeline)(executor, self.phases)
        self._answers = Answers(scheduler)
        self._ids = itertools.count()
        self._lock = threading.RLock()  # of all that the scheduler and the answers hold
        self._driver = threading.Lock()  # held while a step goes on
        self._idle = IdleEngine(scheduler, executor)

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
        """True if any request has not ended, or its end was not reported."""
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
            sampling_params: Its sampling parameters.
            request_id: Unique among live requests; None makes one.
            fields: Other fields of Request: priority, client, deadline, hints, ...

        Returns:
            The request's id.

        Raises:
            RequestRefusedError: It could never run, or a gate rejects it.
        """
        if request_id is None:
            request_id = f"request-{next(self._ids)}"
        request = make_request(self.model, request_id, prompt, sampling_params, fields)
        answer = Answer(request, self.tokenizer)
        with self._lock:
            self.submit(request)
            self._answers.by_id[request_id] = answer
        self.scheduler.bell.ring()
        return request_id

    def submit(self, request: Request) -> None:
        """Queue a request whose answer the caller collects from ``advance``.

        Raises:
            RequestRefusedError: It could never run, or a gate rejects it.
        """
        self.decisions.timed(self.scheduler.add_request, request)

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
                self._idle.wait(num_rings)
            elif not plan.is_empty:
                self._idle.has_warned = False
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
        # Without live requests only as many steps are planned as it takes to report their ends.
        pipeline = self._pipeline
        pipeline.start()
        with self._lock:
            depth = self.scheduler.pipeline_depth if self.scheduler.requests else 1
            while len(pipeline.plans) < depth:
                plan = self.decisions.timed(self.scheduler.schedule)
                self.decisions.num_steps += 1
                pipeline.lap(SCHEDULING)
                pipeline.put(plan)
                if plan.is_empty:
                    break
        return self._compute_next()

    def _compute_next(
        self, *, is_step: bool = True
    ) -> tuple[SchedulerOutput, StepOutputs | None, list[RequestOutput]]:
        plan = self._pipeline.plans[0]
        output = self._execute(plan)
        if output is None:
            self._pipeline.lap(BOOKKEEPING)
            return plan, None, []
        with self._lock:
            outputs = self.decisions.timed(self.scheduler.update_from_output, plan, output)
            if is_step:
                self._pipeline.lap(BOOKKEEPING)
            # Before the lock is left: an id whose end is reported may be used again.
            return plan, outputs, self._answers.collect(outputs) if self._answers.by_id else []

    def generate(
        self,
        prompts: Prompt | Iterable[Prompt],
        sampling_params: SamplingParams | Iterable[SamplingParams] | None = None,
    ) -> Iterator[RequestOutput]:
        """Answer prompts; yields each request's final output when it ends.

        However it is left (all are answered, one is refused, an executor gives up, the
        caller stops asking), none of its requests goes on.

        Args:
            prompts: Prompts to answer: several, or a single one.
            sampling_params: One for all, or one for each.

        Raises:
            TypeError: The prompts are none.
            ValueError: There are more or fewer sampling parameters than prompts.
            RequestRefusedError: One of the prompts could never run.
        """
        asked = paired(prompts, sampling_params)
        return answered(self, self._answers.by_id, asked, self._drop_unwanted)

    def _drop_unwanted(self) -> None:
        """Compute the steps in flight that no caller wants, since they hold blocks."""
        while self._pipeline.plans and not self.scheduler.requests:
            self._compute_next(is_step=False)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the thread that computes steps, between two of them."""
        return self._pipeline.call(function)

    def close(self) -> None:
        """Close the components and the executor.

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
            self._restarts.count(f"in step {plan.step_id}", error)
            self._pipeline.clear()
            with self._lock:
                self.scheduler.recover()
            self._restarts.restart(self._pipeline.call)
            return None
        if not plan.is_empty:
            self._restarts.num_failures = 0
        return output
