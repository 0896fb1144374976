"""The scheduler: decides, before every forward pass, the tokens of each request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from batchwright.callers.guard import Guard
from batchwright.callers.lifecycle import close, set_up
from batchwright.clock import Clock
from batchwright.components import Components
from batchwright.context import Sizes
from batchwright.decode_batch.fast_forward import FastForwarding
from batchwright.exceptions import StepError
from batchwright.messages import ModelOutput, SchedulerOutput, StepOutputs
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.parts import Parts
from batchwright.scheduler.planning import commit_plan
from batchwright.scheduler.readings import Readings
from batchwright.scheduler.services import SchedulerServices, SchedulerView, record_of
from batchwright.scheduler.settings import SchedulerSettings
from batchwright.scheduler.state import State
from batchwright.scheduler.turn import Turns

_log = logging.getLogger("batchwright.scheduler")


class Scheduler(Readings):
    """Plans steps over requests, a token budget and KV blocks.

    Drive it by turns: ``schedule()``, compute the plan, ``update_from_output()``.
    With ``pipeline_depth`` over one, so many plans may be made before the first is
    updated; updates come in the order of the plans.

    One thread at a time uses it. Any thread may call ``signal``, at any time.

    Args:
        components: Every choice, made (see ``from_config`` for the usual way).
        settings: Settings of the step itself.
        sizes: The fixed sizes of the run.
        clock: The only source of time for decisions.
        stopwatch: The clock that calls of components are timed by; None: ``clock``.
    """

    def __init__(
        self,
        components: Components,
        settings: SchedulerSettings,
        sizes: Sizes,
        clock: Clock,
        stopwatch: Clock | None = None,
    ) -> None:
        slow_after = settings.slow_component_seconds
        self._guard = Guard(settings.max_component_faults, slow_after, stopwatch or clock)
        self._state = State(components, settings, sizes, clock, self._guard)
        self._state.view = SchedulerView(self._state)
        parts = self._parts = Parts(self._state, self._guard)
        self._progress_guard = parts.progress_guard
        turns = self._turns = Turns(self._state, parts.ending)
        self._scheduling, self._updating = turns.of("schedule()"), turns.of("update_from_output()")
        self._services = SchedulerServices(self._state)
        for component in (*components, *components.subcomponents()):
            component.ctx.bind(self._services, component)
        for component in components:
            set_up(component)
        if not parts.blocks.fits(sizes.max_model_len):
            _log.warning(
                "the KV pool holds %d tokens, less than max_model_len = %d: a request that "
                "outgrows it ends with finish reason 'length', detail 'kv_capacity'",
                components.kv.num_usable_blocks * sizes.block_size,
                sizes.max_model_len,
            )

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> Scheduler:
        """Build a scheduler from a configuration; needs no model.

        Args:
            config: The structure of the TOML file as a dict; every section is optional.
            clock: Defaults to the machine's monotonic clock.

        Raises:
            ConfigError: The configuration cannot be used.
            PluginError: A component that it selects cannot be had.
        """
        from batchwright.assembly import scheduler_from_config

        return scheduler_from_config(config or {}, clock=clock)

    # -- The step ----------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        """Plan one step: running requests first, then admissions.

        Returns:
            The plan; ``num_computed_tokens`` of its requests has advanced already.

        Raises:
            StepError: ``pipeline_depth`` plans are in flight, or a component called it.
            PluginError: A component failed too often in a row.
        """
        if not self._turns.doing:
            self._check_depth()
        state = self._state
        with self._scheduling:
            try:
                return self._plan_step()
            finally:
                state.step = state.idle_step
                state.waiting.new_reasons.clear()

    def update_from_output(self, plan: SchedulerOutput, output: ModelOutput) -> StepOutputs:
        """Commit what the executor computed for a plan.

        Args:
            plan: The oldest plan in flight.
            output: The executor's answer.

        Returns:
            New tokens and ends; aborts and errors since the last update included.

        Raises:
            StepError: It is another plan's turn, the answer is none, or a component
                called it.
            PluginError: A component failed too often in a row.
        """
        with self._updating:
            outputs = self._parts.results.commit(plan, output)
            if output.extras and self._parts.features.update_from_worker(output.extras):
                self._state.has_changed = True
            if self._state.events.on_outputs.listeners:
                self._state.events.on_outputs(outputs)
            return outputs

    @property
    def fast_forwarding(self) -> FastForwarding:
        """Many steps at once, as far as nothing is decided in them; for simulators."""
        return FastForwarding(self._state, self._parts.results, self._turns.of)

    def recover(self) -> None:
        """Put every running request back, since the executor has lost everything.

        Plans in flight are void: they must not be updated any more. Known tokens are
        kept, so that each request goes on where it was once it is recomputed.

        Raises:
            StepError: A component called it.
        """
        with self._turns.of("recover()"):
            self._parts.preemption.preempt_all()
            if self._parts.features.on_restart():
                self._state.has_changed = True

    # -- Requests ----------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestRefusedError: It could not run even one step, or a gate rejects it;
                nothing was added.
            StepError: A component called it.
        """
        with self._turns.of("add_request()"):
            self._parts.admission.add(request)

    def abort(self, request_ids: str | Iterable[str]) -> None:
        """End requests at once, in whatever state; unknown ids are ignored.

        Each appears in ``finished`` of the next ``update_from_output``. If a component
        calls it while a plan is made, they end when that is done, or before they are
        planned.
        """
        for request_id in [request_ids] if isinstance(request_ids, str) else request_ids:
            self.finish(request_id, RequestStatus.FINISHED_ABORTED, "aborted")

    def finish(self, request_id: str, status: RequestStatus, detail: str) -> None:
        """End a request for a reason that its caller found (e.g. a stop string).

        Unknown ids are ignored: the request may have ended by itself.
        """
        self._state.to_end.append((request_id, status, detail))
        if not self._turns.doing:
            with self._turns.of("finish()"):
                pass  # it ends at the end of this, as what components end meanwhile does
        elif self._turns.doing == "update_from_output()":
            self._parts.ending.end_requested()

    def signal(self, key: str) -> None:
        """Bring back, at the next step, the requests that are deferred until a key, or wait for it.

        From any thread; an engine that sleeps wakes up.

        Raises:
            TypeError: The key is no string.
        """
        self._state.signal(key)

    def pause(self) -> None:
        """Admit no request until ``resume``; running requests go on."""
        self._state.admission_paused = True

    def resume(self) -> None:
        """Admit requests again."""
        self._state.admission_paused = False
        self._state.bell.ring()

    def reset_prefix_cache(self) -> bool:
        """Forget cached prefixes.

        Returns:
            Whether it was done; it is not while any block is in use.

        Raises:
            StepError: A component called it.
        """
        self._turns.refuse_within("reset_prefix_cache()")
        return self._state.kv.reset_prefix_cache()

    def close(self) -> None:
        """Let every component flush and release what it holds."""
        for component in self._state.components:
            close(component, self._guard)

    def _plan_step(self) -> SchedulerOutput:
        state, parts = self._state, self._parts
        bypass = parts.progress_guard.bypass()
        parts.begin_step.settle(state.clock.now())
        step = parts.begin_step.begin(bypass)
        if state.has_changed:
            parts.policy_preemption.run()
        parts.running_scan.run(step)
        parts.waiting_scan.run(step)
        if not step.tokens and step.lift_decode_cap():
            parts.running_scan.run(step)
        plan = commit_plan(state)
        if state.components.features:
            parts.features.build_metadata(plan)
            state.has_changed = True
        parts.progress_guard.after_step(plan)
        if state.events.on_step.listeners:
            state.events.on_step(record_of(plan, step, state))
        return plan

    def _check_depth(self) -> None:
        depth = self._state.settings.pipeline_depth
        if len(self._state.in_flight.steps) >= depth:
            raise StepError(
                f"{depth} plan(s) are in flight; call update_from_output() first "
                f"(scheduler.pipeline_depth = {depth})"
            )
