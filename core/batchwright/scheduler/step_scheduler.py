"""The part of a scheduler that does not depend on its loop: requests, results, views."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, ClassVar

from batchwright.callers.guard import Guard
from batchwright.clock import Clock
from batchwright.config.sections import SchedulerSection
from batchwright.exceptions import StepError
from batchwright.messages import ModelOutput, SchedulerOutput, StepOutputs
from batchwright.protocols import SchedulerBase
from batchwright.protocols.components import Components
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.parts import Parts
from batchwright.scheduler.planning import commit_plan, record_of
from batchwright.scheduler.services import SchedulerServices
from batchwright.scheduler.state import State
from batchwright.scheduler.step import Step
from batchwright.scheduler.turn import Turns

_log = logging.getLogger("batchwright.scheduler")


class StepScheduler(SchedulerBase):
    """Keeps requests, their blocks and their results; a subclass plans the steps.

    A subclass writes ``plan``, in terms of a ``Step``. All other components take part as they
    do in the default scheduler, with one exception: the subclass chooses the order in which
    running requests get their tokens, so that no policy is asked for ``running_key``.

    Attributes:
        batches_decodes: True if decodes may be advanced together, without ``Step.schedule``.
        progress_guard: The guard against steps without progress; counts its interventions.
    """

    batches_decodes: ClassVar[bool] = False

    def start(self, components: Components, settings: SchedulerSection, stopwatch: Clock) -> None:
        super().start(components, settings, stopwatch)
        sizes, slow_after = self.sizes, settings.slow_component_seconds
        self._guard = Guard(settings.max_component_faults, slow_after, stopwatch)
        self._state = state = State(components, settings, sizes, self.clock, self._guard)
        self.requests, self.bell, self.view = state.requests, state.bell, state.view
        if not self.batches_decodes:
            state.decode_batch.is_enabled = False
        parts = self._parts = Parts(state)
        self._step = Step(state, parts)
        self.progress_guard = parts.progress_guard
        blamed = (*components,) if self.batches_decodes else (*components, self)
        self._turns = Turns(state, parts.ending, blamed)
        self._services = SchedulerServices(state)
        for component in (*components, *components.subcomponents(), self):
            component.ctx.bind(self._services, component)
        for component in (*components, self):
            self._guard.set_up(component)
        if not state.blocks.fits(sizes.max_model_len):
            _log.warning(
                "the KV pool holds %d tokens, less than max_model_len = %d: a request that "
                "outgrows it ends with finish reason 'length', detail 'kv_capacity'",
                components.kv.num_usable_blocks * sizes.block_size,
                sizes.max_model_len,
            )

    @abstractmethod
    def plan(self, step: Step) -> None:
        """Fill one step: schedule running requests, admit waiting ones.

        Args:
            step: The step, empty still.

        Cost class: step.
        """

    # -- The step ----------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        state, depth = self._state, self.pipeline_depth
        if not self._turns.doing and len(state.in_flight.steps) >= depth:
            raise StepError(
                f"{depth} plan(s) are in flight; call update_from_output() first "
                f"(scheduler.pipeline_depth = {depth})"
            )
        with self._turns.begin("schedule()"):
            try:
                return self._plan_step()
            finally:
                state.step = state.idle_step
                state.waiting.new_reasons.clear()

    def _plan_step(self) -> SchedulerOutput:
        state, parts = self._state, self._parts
        bypass = parts.progress_guard.bypass()
        step = parts.begin_step.run(bypass)
        if state.has_changed:
            parts.policy_preemption.run()
        self.plan(self._step)
        if not step.tokens and step.lift_decode_cap():
            parts.running_scan.run(step)
        plan = commit_plan(state)
        if state.components.features:
            state.features.build_metadata(plan)
            state.has_changed = True
        parts.progress_guard.after_step(plan)
        if state.events.on_step.listeners:
            state.events.on_step(record_of(plan, step, state))
        return plan

    def update_from_output(self, plan: SchedulerOutput, output: ModelOutput) -> StepOutputs:
        with self._turns.begin("update_from_output()"):
            outputs = self._parts.results.commit(plan, output)
            if output.extras and self._state.features.update_from_worker(output.extras):
                self._state.has_changed = True
            if self._state.events.on_outputs.listeners:
                self._state.events.on_outputs(outputs)
            return outputs

    def recover(self) -> None:
        with self._turns.begin("recover()"):
            self._parts.preemption.preempt_all()
            if self._state.features.on_restart():
                self._state.has_changed = True

    # -- Requests ----------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        with self._turns.begin("add_request()"):
            self._parts.admission.add(request)

    def finish(self, request_id: str, status: RequestStatus, detail: str) -> None:
        self._state.to_end.append((request_id, status, detail))
        if not self._turns.doing:
            with self._turns.begin("finish()"):
                pass  # it ends at the end of this, as what components end meanwhile does
        elif self._turns.doing == "update_from_output()":
            self._parts.ending.end_requested()

    def signal(self, key: str) -> None:
        self._state.signal(key)

    def pause(self) -> None:
        self._state.admission_paused = True

    def resume(self) -> None:
        self._state.admission_paused = False
        self._state.bell.ring()

    def reset_prefix_cache(self) -> bool:
        with self._turns.begin("reset_prefix_cache()"):
            return self._state.kv.reset_prefix_cache()

    def close(self) -> None:
        for component in self._state.components:
            self._guard.close(component)

    # -- What can be read --------------------------------------------------------

    @property
    def running(self) -> list[Request]:
        """Running requests in order of admission."""
        return list(self._state.running.values())

    @property
    def has_signals(self) -> bool:
        return bool(self._state.signals)

    @property
    def awaits_outside(self) -> bool:
        return self.progress_guard.awaits_outside

    @property
    def awaits_resource(self) -> bool:
        return self.progress_guard.awaits_resource

    @property
    def fault_counts(self) -> dict[str, int]:
        return dict(self._guard.counts)

    @property
    def num_component_faults(self) -> int:
        return self._guard.num_about_requests + sum(self._guard.counts.values())

    @property
    def estimator_was_asked(self) -> bool:
        return self._services.estimator_was_asked

    def summaries(self) -> dict[str, dict[str, Any]]:
        return self._state.events.summaries()

    @property
    def slow_calls(self) -> dict[str, float]:
        """Seconds of the slowest call, by component and method, of those that were slow.

        Calls are timed if ``scheduler.slow_component_seconds`` is set.
        """
        return dict(self._guard.slowest)

    def held_blocks(self) -> dict[str, list[int]]:
        """Blocks that ended requests hold until a step in flight is done; for audits."""
        return self._state.in_flight.deferred_blocks()
