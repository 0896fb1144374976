"""The part of a scheduler that is the same for all: requests, results, what others read."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, ClassVar

from batchwright import snapshot
from batchwright.clock import Clock
from batchwright.exceptions import OUTSIDE, StepError
from batchwright.messages import ModelOutput, SchedulerOutput, StepOutputs
from batchwright.protocols import SchedulerBase
from batchwright.protocols.component import overrides
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.components import Components
from batchwright.scheduler.departures import Departures
from batchwright.scheduler.faults import blame, raised, set_up, traceback_of
from batchwright.scheduler.intake import Intake
from batchwright.scheduler.opening import Opening
from batchwright.scheduler.planning import commit_plan
from batchwright.scheduler.progress_guard import ProgressGuard
from batchwright.scheduler.results import Results
from batchwright.scheduler.running_scan import RunningScan
from batchwright.scheduler.settings import SchedulerSettings
from batchwright.scheduler.state import State
from batchwright.scheduler.step import Step
from batchwright.scheduler.waiting_scan import WaitingScan
from batchwright.scheduler.yielding import Yielding
from batchwright.step_record import StepRecord

_log = logging.getLogger("batchwright.scheduler")


class StepScheduler(SchedulerBase):
    """Keeps requests, their blocks and their results; a subclass plans the steps.

    A subclass writes ``plan``, in terms of a ``Step``. All other components take part as they
    do in the default scheduler, but for one thing: in which order running requests get their
    tokens is the subclass's choice, so that no policy is asked for ``running_key``.

    Attributes:
        batches_decodes: Whether decodes may be advanced together, without ``Step.schedule``.
    """

    batches_decodes: ClassVar[bool] = False

    def start(self, components: Components, settings: SchedulerSettings, stopwatch: Clock) -> None:
        super().start(components, settings, stopwatch)
        sizes = self.sizes
        self._state = state = State(components, settings, sizes, self.clock, stopwatch)
        self.requests, self.view, self.bell = state.requests, state.view, state.bell
        if not self.batches_decodes:
            state.decode_batch.is_enabled = False
        self._departures = Departures(state)
        self._intake = Intake(state, self._departures)
        self._yielding = Yielding(state, self._departures)
        self._running_scan = RunningScan(state, self._departures)
        self._waiting_scan = WaitingScan(state, self._departures, self._yielding)
        self._step = Step(state, self._departures, self._running_scan, self._waiting_scan)
        self._results = Results(state, self._departures)
        self._guard = ProgressGuard(state)
        self._opening = Opening(state)
        self._blamed = (*components,) if self.batches_decodes else (*components, self)
        self._doing = ""
        self._thread = 0
        self._tells_steps = state.announcer.wants("on_step")
        self._tells_outputs = state.announcer.wants("on_outputs")
        for component in (*components, *components.subcomponents(), self):
            component.ctx.bind(state, component)
        for component in (*components, self):
            set_up(component)
        if not state.fits_pool(sizes.max_model_len):
            _log.warning(
                "the KV pool holds %d tokens, less than max_model_len = %d: a request that "
                "outgrows it ends with finish reason 'length', detail 'kv_capacity'",
                state.kv.num_usable_blocks * sizes.block_size,
                sizes.max_model_len,
            )

    @abstractmethod
    def plan(self, step: Step) -> None:
        """Fill one step: give tokens to running requests, admit waiting ones.

        Args:
            step: The step, empty still.

        Cost class: step.
        """

    # -- The step ----------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
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
            self.plan(self._step)
            if not state.draft.tokens and state.draft.lift_decode_cap():
                self._running_scan.run()
            plan = commit_plan(state)
            for feature in state.components.features:
                said = state.call_back(feature, "build_metadata", plan)
                if said is not None:
                    plan.extras[feature.name] = said
            self._guard.after_step(plan)
            if self._tells_steps:
                state.announcer.tell("on_step", StepRecord(plan, state.draft, state))
        except BaseException as error:
            blame(error, self._blamed)
            raise
        finally:
            # What is taken out from now on is no part of a plan being made.
            state.draft = state.no_draft
            state.room.new_reasons.clear()
            self._end()
        return plan

    def update_from_output(self, plan: SchedulerOutput, output: ModelOutput) -> StepOutputs:
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
            blame(error, self._blamed)
            raise
        finally:
            self._end()
        return outputs

    def recover(self) -> None:
        with self._alone("recover()"):
            self._departures.put_all_back()
            for feature in self._state.components.features:
                if overrides(feature, "on_restart"):
                    self._state.call_back(feature, "on_restart")

    # -- Requests ----------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        self._begin("add_request()")
        try:
            self._intake.add(request)
        except BaseException as error:
            blame(error, self._blamed)
            raise
        finally:
            self._end()

    def finish(self, request_id: str, status: RequestStatus, detail: str) -> None:
        self._state.to_end.append((request_id, status, detail))
        if not self._doing:
            with self._alone("finish()"):
                pass  # it ends at the end of this, as what components end meanwhile does
        elif self._doing == "update_from_output()":
            self._departures.heed_ends()

    def signal(self, key: str) -> None:
        self._state.signal(key)

    def pause(self) -> None:
        self._state.admission_paused = True

    def resume(self) -> None:
        self._state.admission_paused = False
        self._state.bell.ring()

    def reset_prefix_cache(self) -> bool:
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
    def restore(data: bytes, *, clock: Clock) -> StepScheduler:
        """Make a scheduler from a snapshot: it decides what the original would have.

        Args:
            data: A snapshot of the same version, from a source that you trust.
            clock: The clock to go on with; it should show the time of the snapshot.
        """
        return snapshot.restore(data, clock)

    def close(self) -> None:
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
    def running(self) -> list[Request]:
        """Running requests in order of admission."""
        return list(self._state.running.values())

    @property
    def guard(self) -> ProgressGuard:
        return self._guard

    @property
    def has_unfinished(self) -> bool:
        state = self._state
        return bool(state.requests or state.fence.flights or state.ended)

    @property
    def has_signals(self) -> bool:
        return bool(self._state.signals)

    @property
    def awaits_outside(self) -> bool:
        return self._guard.awaits_outside

    @property
    def awaits_resource(self) -> bool:
        return self._guard.awaits_resource

    @property
    def fault_counts(self) -> dict[str, int]:
        return dict(self._state.faults.counts)

    @property
    def num_component_faults(self) -> int:
        faults = self._state.faults
        return faults.num_about_requests + sum(faults.counts.values())

    @property
    def estimator_was_asked(self) -> bool:
        return self._state.estimator_was_asked

    def summaries(self) -> dict[str, dict[str, Any]]:
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
            blame(error, self._blamed)
            raise

    def _check_depth(self) -> None:
        state = self._state
        depth = state.settings.pipeline_depth
        if len(state.fence.flights) >= depth:
            raise StepError(
                f"{depth} plan(s) are in flight; call update_from_output() first "
                f"(scheduler.pipeline_depth = {depth})"
            )
