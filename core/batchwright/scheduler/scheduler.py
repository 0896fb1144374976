"""The scheduler: decides, before every forward pass, the tokens of each request."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

from batchwright.callers.controls import Controls
from batchwright.callers.features import Features
from batchwright.callers.gates import Gates
from batchwright.callers.guard import Guard
from batchwright.callers.kv import BlockPool
from batchwright.callers.lifecycle import close, set_up
from batchwright.callers.limits import Limits
from batchwright.callers.resources import Resources
from batchwright.callers.timers import Timers
from batchwright.callers.victims import Victims
from batchwright.clock import Clock
from batchwright.components import Components
from batchwright.context import Sizes
from batchwright.exceptions import StepError
from batchwright.messages import Leap, LeapOutput, ModelOutput, SchedulerOutput, StepOutputs
from batchwright.request import Finish, Request, RequestStatus
from batchwright.scheduler.admission import Admission
from batchwright.scheduler.admission_attempt import AdmissionAttempt
from batchwright.scheduler.begin_step import StepBeginning
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.failures import Failures
from batchwright.scheduler.leap import Leaps
from batchwright.scheduler.making_room import MakingRoom
from batchwright.scheduler.planning import commit_plan
from batchwright.scheduler.policy_preemption import PolicyPreemption
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.progress_guard import ProgressGuard
from batchwright.scheduler.readings import Readings
from batchwright.scheduler.results import Results
from batchwright.scheduler.running_scan import RunningScan
from batchwright.scheduler.settings import SchedulerSettings
from batchwright.scheduler.state import State
from batchwright.scheduler.turn import Turn
from batchwright.scheduler.waiting_scan import WaitingScan
from batchwright.step_record import StepRecord

_log = logging.getLogger("batchwright.scheduler")


class Scheduler(Readings):
    """Plans steps over requests, a token budget and KV blocks.

    Drive it by turns: ``schedule()``, compute the plan, ``update_from_output()``.
    With ``pipeline_depth`` over one, so many plans may be made before the first is
    updated; updates come in the order of the plans.

    One thread at a time uses it. Any thread may call ``notify`` and ``release``, at any time.

    Args:
        components: Every choice, made (see ``from_config`` for the usual way).
        settings: Settings of the step itself.
        limits: The fixed sizes of the run.
        clock: The only source of time for decisions.
        stopwatch: The clock that calls of components are timed by; None: ``clock``.
    """

    def __init__(
        self,
        components: Components,
        settings: SchedulerSettings,
        limits: Sizes,
        clock: Clock,
        stopwatch: Clock | None = None,
    ) -> None:
        slow_after = settings.slow_component_seconds
        self._guard = Guard(settings.max_component_faults, slow_after, stopwatch or clock)
        self._state = State(components, settings, limits, clock, self._guard)
        self._connect_parts()
        for component in (*components, *components.hosted()):
            component.ctx.bind(self._state, component)
        for component in components:
            set_up(component)
        if not self._blocks.fits(limits.max_model_len):
            _log.warning(
                "the KV pool holds %d tokens, less than max_model_len = %d: a request that "
                "outgrows it ends with finish reason 'length', detail 'kv_capacity'",
                components.kv.num_usable_blocks * limits.block_size,
                limits.max_model_len,
            )

    def _connect_parts(self) -> None:
        """Make the callers and the parts of the step, each with what it needs."""
        state, guard, components = self._state, self._guard, self._state.components
        gates, limits = Gates(components.gates, guard), Limits(components.limits, guard)
        resources = Resources(components.resources, guard)
        victims = Victims(components.victim, components.preemption, guard)
        blocks = self._blocks = BlockPool(components.kv, state.sizes)
        self._features = Features(components.features, guard)
        self._beginning = StepBeginning(state, Controls(components.controls, guard), Timers(guard))
        ending = self._ending = Ending(state, blocks, resources)
        self._turn = Turn(state, ending)
        self._admission = Admission(state, blocks, gates, self._features, resources, ending)
        preemption = self._preemption = Preemption(state, blocks, victims, ending)
        by_policy = PolicyPreemption(state, state.policy, blocks, preemption)
        self._policy_preemption = by_policy
        room = MakingRoom(state, blocks, preemption, by_policy)
        attempt = AdmissionAttempt(state, gates, limits, resources, blocks, ending, room)
        self._running_scan = RunningScan(state, state.policy, limits, blocks, preemption, ending)
        self._waiting_scan = WaitingScan(state, gates, attempt, ending, by_policy)
        failures = Failures(state, blocks, ending, preemption)
        self._results = Results(state, ending, preemption, failures)
        self._leaps = Leaps(state, self._results)
        self._progress = ProgressGuard(state)

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
        if not self._turn.doing:
            self._check_depth()
        with self._turn("schedule()"):
            try:
                return self._plan_step()
            finally:
                self._state.end_step()
                self._state.waiting.new_reasons.clear()

    def _plan_step(self) -> SchedulerOutput:
        state = self._state
        bypass = self._progress.bypass()
        self._beginning.settle(state.clock.now())
        step = self._beginning.begin_step(bypass)
        self._ending.end_requested()
        if state.has_changed:
            self._policy_preemption.run()
            self._ending.end_requested()
        self._running_scan.run(step)
        self._waiting_scan.run(step)
        if not step.tokens and step.lift_decode_cap():
            self._running_scan.run(step)
        plan = commit_plan(state)
        if self._features:
            state.has_changed = True
            self._features.say(plan)
        self._progress.after_step(plan)
        if state.events.on_step:
            state.events.on_step(StepRecord(plan, step, state))
        return plan

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
        with self._turn("update_from_output()"):
            outputs = self._results.commit(plan, output)
            if output.extras and self._features.hear(output.extras):
                self._state.has_changed = True
            self._state.events.on_outputs(outputs)
            return outputs

    def plan_leap(self, until: float = math.inf) -> Leap | None:
        """The steps from now on in which nothing is decided; None if the next one decides.

        Args:
            until: No step begins at that time or later (seconds).

        Raises:
            StepError: A component called it.
        """
        self._turn.refuse_within("plan_leap()")
        return self._leaps.plan(until)

    def commit_leap(self, leap: Leap, output: LeapOutput) -> dict[str, Finish]:
        """Commit what the executor computed in a leap, planned just before.

        Returns:
            By request, how it has ended, since the last update.

        Raises:
            StepError: A component called it.
            PluginError: A component failed too often in a row.
        """
        with self._turn("commit_leap()"):
            return self._leaps.commit(leap, output)

    def recover(self) -> None:
        """Put every running request back, since the executor has lost everything.

        Plans in flight are void: they must not be updated any more. Known tokens are
        kept, so that each request goes on where it was once it is recomputed.

        Raises:
            StepError: A component called it.
        """
        with self._turn("recover()"):
            self._preemption.preempt_all()
            if self._features.on_restart():
                self._state.has_changed = True

    # -- Requests ----------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestRefusedError: It could not run even one step, or a gate rejects it;
                nothing was added.
            StepError: A component called it.
        """
        with self._turn("add_request()"):
            self._admission.add(request)

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
        if not self._turn.doing:
            with self._turn("finish()"):
                pass  # it ends at the end of this, as what components end meanwhile does
        elif self._turn.doing == "update_from_output()":
            self._ending.end_requested()

    def notify(self, key: str) -> None:
        """Bring back, at the next step, the requests that are parked on a key.

        From any thread; an engine that sleeps wakes up.
        """
        self._state.give_notice("notify", key)

    def release(self, key: str) -> None:
        """Bring back, at the next step, the requests that are deferred until a key.

        From any thread; an engine that sleeps wakes up.
        """
        self._state.give_notice("release", key)

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
        self._turn.refuse_within("reset_prefix_cache()")
        return self._state.kv.reset_prefix_cache()

    def close(self) -> None:
        """Let every component flush and release what it holds."""
        for component in self._state.components:
            close(component, self._guard)

    def _check_depth(self) -> None:
        depth = self._state.settings.pipeline_depth
        if len(self._state.in_flight.steps) >= depth:
            raise StepError(
                f"{depth} plan(s) are in flight; call update_from_output() first "
                f"(scheduler.pipeline_depth = {depth})"
            )
