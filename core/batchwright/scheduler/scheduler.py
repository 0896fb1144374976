"""The scheduler: decides, before every forward pass, the tokens of each request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from batchwright import snapshot
from batchwright.clock import Clock
from batchwright.context import Sizes
from batchwright.decode_batch.fast_forward import FastForwarding
from batchwright.exceptions import OUTSIDE, StepError
from batchwright.messages import ModelOutput, SchedulerOutput, StepOutputs
from batchwright.protocols import KVManager
from batchwright.protocols.component import overrides
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.bell import Bell
from batchwright.scheduler.components import Components
from batchwright.scheduler.departures import Departures
from batchwright.scheduler.faults import blame, raised, set_up, traceback_of
from batchwright.scheduler.intake import Intake
from batchwright.scheduler.opening import Opening
from batchwright.scheduler.planning import commit_plan
from batchwright.scheduler.progress_guard import ProgressGuard
from batchwright.scheduler.results import Results
from batchwright.scheduler.running_scan import RunningScan
from batchwright.scheduler.services import SchedulerServices, SchedulerView, record_of
from batchwright.scheduler.settings import SchedulerSettings
from batchwright.scheduler.state import State
from batchwright.scheduler.waiting_scan import WaitingScan
from batchwright.scheduler.yielding import Yielding
from batchwright.step_view import StepView

_log = logging.getLogger("batchwright.scheduler")


class Scheduler:
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
        self._state = state = State(components, settings, sizes, clock, stopwatch or clock)
        state.view = SchedulerView(state)
        self._departures = Departures(state)
        self._intake = Intake(state, self._departures)
        self._yielding = Yielding(state, self._departures)
        self._running_scan = RunningScan(state, self._departures)
        self._waiting_scan = WaitingScan(state, self._departures, self._yielding)
        self._results = Results(state, self._departures)
        self._guard = ProgressGuard(state)
        self._opening = Opening(state)
        self._doing = ""
        self._thread = 0
        self._tells_steps = state.announcer.wants("on_step")
        self._tells_outputs = state.announcer.wants("on_outputs")
        self._services = SchedulerServices(state)
        for component in (*components, *components.subcomponents()):
            component.ctx.bind(self._services, component)
        for component in components:
            set_up(component)
        if not state.fits_pool(sizes.max_model_len):
            _log.warning(
                "the KV pool holds %d tokens, less than max_model_len = %d: a request that "
                "outgrows it ends with finish reason 'length', detail 'kv_capacity'",
                state.kv.num_usable_blocks * sizes.block_size,
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
        state = self._state
        if not self._doing:
            self._check_depth()
        self._begin("schedule()")
        try:
            state.now = state.clock.now()
            state.bypass_choices = self._guard.steps_in()
            self._opening.settle()
            state.draft = self._opening.open_draft()
            if state.to_end:
                self._departures.heed_ends()
            if state.has_changed:
                self._yielding.run()
                if state.to_end:
                    self._departures.heed_ends()
            self._running_scan.run()
            self._waiting_scan.run()
            if not state.draft.tokens and state.draft.lift_decode_cap():
                self._running_scan.run()
            plan = commit_plan(state)
            for feature in state.components.features:
                said = state.call_back(feature, "build_metadata", plan)
                if said is not None:
                    plan.extras[feature.name] = said
            self._guard.after_step(plan)
            if self._tells_steps:
                state.announcer.tell("on_step", record_of(plan, state))
        except BaseException as error:
            blame(error, state.components)
            raise
        finally:
            # What is taken out from now on is no part of a plan being made.
            state.draft = state.no_draft
            state.room.new_reasons.clear()
            self._end()
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
        state = self._state
        self._begin("update_from_output()")
        try:
            outputs = self._results.commit(plan, output)
            for feature in state.components.features if output.extras else ():
                if feature.name in output.extras:
                    state.call_back(feature, "update_from_worker", output.extras[feature.name])
            if self._tells_outputs:
                state.announcer.tell("on_outputs", outputs)
        except BaseException as error:
            blame(error, state.components)
            raise
        finally:
            self._end()
        return outputs

    def recover(self) -> None:
        """Put every running request back, since the executor has lost everything.

        Plans in flight are void: they must not be updated any more. Known tokens are
        kept, so that each request goes on where it was once it is recomputed.

        Raises:
            StepError: A component called it.
        """
        with self._alone("recover()"):
            self._departures.put_all_back()
            for feature in self._state.components.features:
                if overrides(feature, "on_restart"):
                    self._state.call_back(feature, "on_restart")

    # -- Requests ----------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestRefusedError: It could not run even one step, or a gate rejects it;
                nothing was added.
            StepError: A component called it.
        """
        self._begin("add_request()")
        try:
            self._intake.add(request)
        except BaseException as error:
            blame(error, self._state.components)
            raise
        finally:
            self._end()

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
        if not self._doing:
            with self._alone("finish()"):
                pass  # it ends at the end of this, as what components end meanwhile does
        elif self._doing == "update_from_output()":
            self._departures.heed_ends()

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
        self._refuse_within("reset_prefix_cache()")
        return self._state.kv.reset_prefix_cache()

    def snapshot(self) -> bytes:
        """Write down the scheduler and all that its components remember.

        The clock and the observers are left out; plans in flight are part of it.

        Raises:
            BatchwrightError: A component holds something that cannot be written down.
        """
        self._refuse_within("snapshot()")
        return snapshot.take(self)

    @staticmethod
    def restore(data: bytes, *, clock: Clock) -> Scheduler:
        """Make a scheduler from a snapshot: it decides what the original would have.

        Args:
            data: A snapshot of the same version, from a source that you trust.
            clock: The clock to go on with; it should show the time of the snapshot.
        """
        return snapshot.restore(data, clock)

    def close(self) -> None:
        """Let every component flush and release what it holds."""
        for component in self._state.components:
            try:
                component.close()
            except OUTSIDE:
                raise
            except BaseException as error:
                where = self._state.faults.count(component, "close")
                what = raised(error, component, "close")
                _log.error("%s %s", where, what, exc_info=traceback_of(error))

    # -- What can be read --------------------------------------------------------

    @property
    def requests(self) -> dict[str, Request]:
        """Live requests by id; ended ones leave it."""
        return self._state.requests

    @property
    def running(self) -> list[Request]:
        """Running requests in order of admission."""
        return list(self._state.running.values())

    @property
    def num_waiting(self) -> int:
        """Waiting requests, parked ones included."""
        return len(self._state.room)

    @property
    def kv_manager(self) -> KVManager:
        return self._state.kv

    @property
    def components(self) -> Components:
        return self._state.components

    @property
    def sizes(self) -> Sizes:
        return self._state.sizes

    @property
    def clock(self) -> Clock:
        return self._state.clock

    @property
    def pipeline_depth(self) -> int:
        """Plans that may be in flight at once."""
        return self._state.settings.pipeline_depth

    @property
    def view(self) -> StepView:
        """Counts, live; what components see."""
        return self._state.view

    @property
    def guard(self) -> ProgressGuard:
        return self._guard

    @property
    def has_unfinished(self) -> bool:
        """Whether anything lives, is in flight, or is still to be told."""
        state = self._state
        return bool(state.requests or state.fence.flights or state.ended)

    @property
    def has_signals(self) -> bool:
        """Whether the next step heeds a ``signal``."""
        return bool(self._state.signals)

    @property
    def bell(self) -> Bell:
        """Rings at each signal; what drives the scheduler may sleep on it."""
        return self._state.bell

    @property
    def next_timer(self) -> float | None:
        """Seconds on the clock at which a component wants to be called, or None."""
        return self._state.clock_timers.next_time

    @property
    def fast_forwarding(self) -> FastForwarding:
        """Many steps of the decode batch at once, for a simulator."""
        return FastForwarding(self._state, self._results, self._alone)

    @property
    def fault_counts(self) -> dict[str, int]:
        """Faults that belonged to no request, by component and method."""
        return dict(self._state.faults.counts)

    @property
    def num_component_faults(self) -> int:
        """Faults of components, those that belonged to a request included."""
        faults = self._state.faults
        return faults.num_about_requests + sum(faults.counts.values())

    @property
    def estimator_was_asked(self) -> bool:
        """Whether a component has asked ``ctx.estimator``."""
        return self._services.estimator_was_asked

    def summaries(self) -> dict[str, dict[str, Any]]:
        """Return the summaries of observers by name; asked for at the end of a run."""
        return self._state.announcer.summaries()

    @property
    def slow_calls(self) -> dict[str, float]:
        """Seconds of the slowest call, by component and method, of those that were slow.

        Calls are timed if ``scheduler.slow_component_seconds`` is set.
        """
        return dict(self._state.faults.slowest)

    def held_blocks(self) -> dict[str, list[int]]:
        """Blocks that ended requests hold until a step in flight is done; for audits."""
        return self._state.fence.held()

    # -- Parts of the step -------------------------------------------------------

    def _begin(self, call: str) -> None:
        if self._doing:
            self._refuse_within(call)
        self._doing = call
        self._thread = get_ident()

    def _refuse_within(self, call: str) -> None:
        """Refuse what a component, or another thread, calls in the middle of something else."""
        doing = self._doing
        if doing and self._thread != get_ident():
            raise StepError(
                f"{call} was called while another thread was in {doing}: one thread at a time "
                "uses a Scheduler; others may call signal(), or add to an Engine"
            )
        if doing:
            raise StepError(f"{call} was called from within {doing}")

    def _end(self) -> None:
        """End the requests that components ended meanwhile, and let others begin."""
        try:
            if self._state.to_end:
                self._departures.heed_ends()
        finally:
            self._doing = ""

    @contextmanager
    def _alone(self, call: str) -> Iterator[None]:
        """What begins and ends around a call that is no step (those spell it out)."""
        self._begin(call)
        try:
            try:
                yield
            finally:
                self._end()
        except BaseException as error:
            blame(error, self._state.components)
            raise

    def _check_depth(self) -> None:
        state = self._state
        depth = state.settings.pipeline_depth
        if len(state.fence.flights) >= depth:
            raise StepError(
                f"{depth} plan(s) are in flight; call update_from_output() first "
                f"(scheduler.pipeline_depth = {depth})"
            )
