"""The whole scheduler, as engines, simulators and observers use it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from batchwright.protocols.component import Component
from batchwright.request import Request, RequestStatus

if TYPE_CHECKING:
    from batchwright import messages
    from batchwright.bell import Bell
    from batchwright.clock import Clock
    from batchwright.config.sections import SchedulerSection
    from batchwright.context import Sizes
    from batchwright.protocols.components import Components
    from batchwright.protocols.kv import KVManager
    from batchwright.step_view import StepView


class SchedulerBase(Component):
    """Plan steps over requests. One for a run; chosen by ``scheduler.use``.

    Drive it by turns: ``schedule()``, compute the plan, ``update_from_output()``. With
    ``pipeline_depth`` over one, so many plans may be made before the first is updated;
    updates come in the order of the plans. One thread at a time uses it, and any thread may
    call ``signal``.

    ``[scheduler]`` holds the options that all schedulers share; a scheduler's own are in
    ``[scheduler.NAME]``. To replace only the loop, derive ``StepScheduler``: it keeps the
    requests, their ends, their blocks and all that others read, and asks for the plan.

    Attributes:
        components: The other components that the configuration chose.
        settings: Options of ``[scheduler]``.
        requests: Live requests by id; an ended one leaves it.
        view: Counts, live, as components see them.
        bell: Rings at each signal; an engine sleeps on it.

    Faults: an exception ends the run with PluginError.
    """

    components: Components
    settings: SchedulerSection
    requests: dict[str, Request]
    view: StepView
    bell: Bell

    def start(self, components: Components, settings: SchedulerSection, stopwatch: Clock) -> None:
        """Take over the chosen components; called once, before anything else.

        A scheduler binds the context of each component, and calls its ``setup``.

        Args:
            components: The chosen components.
            settings: Options of ``[scheduler]``.
            stopwatch: The clock that calls of components are timed by.
        """
        self.components = components
        self.settings = settings

    # -- The step ----------------------------------------------------------------

    @abstractmethod
    def schedule(self) -> messages.SchedulerOutput:
        """Plan one step.

        Returns:
            The plan; ``num_computed_tokens`` of its requests has advanced already.

        Raises:
            StepError: ``pipeline_depth`` plans are in flight, or a component called it.
            PluginError: A component failed too often in a row.

        Cost class: step.
        """

    @abstractmethod
    def update_from_output(
        self, plan: messages.SchedulerOutput, output: messages.ModelOutput
    ) -> messages.StepOutputs:
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

        Cost class: step.
        """

    @abstractmethod
    def recover(self) -> None:
        """Put every running request back, since the executor has lost everything.

        Plans in flight are void: they must not be updated any more. Known tokens are
        kept, so that each request goes on where it was once it is recomputed.

        Raises:
            StepError: A component called it.
        """

    # -- Requests ----------------------------------------------------------------

    @abstractmethod
    def add_request(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestRefusedError: It could not run even one step, or a gate rejects it;
                nothing was added.
            StepError: A component called it.
        """

    def abort(self, request_ids: str | Iterable[str]) -> None:
        """End requests at once, in whatever state; unknown ids are ignored.

        Each appears in ``finished`` of the next ``update_from_output``. If a component
        calls it while a plan is made, they end when that is done, or before they are
        planned.
        """
        for request_id in [request_ids] if isinstance(request_ids, str) else request_ids:
            self.finish(request_id, RequestStatus.FINISHED_ABORTED, "aborted")

    @abstractmethod
    def finish(self, request_id: str, status: RequestStatus, detail: str) -> None:
        """End a request for a reason that its caller found (e.g. a stop string).

        Unknown ids are ignored: the request may have ended by itself.
        """

    @abstractmethod
    def signal(self, key: str) -> None:
        """Bring back, at the next step, the requests that are deferred until a key, or wait for it.

        From any thread; an engine that sleeps wakes up.

        Raises:
            TypeError: The key is no string.
        """

    @abstractmethod
    def pause(self) -> None:
        """Admit no request until ``resume``; running requests go on."""

    @abstractmethod
    def resume(self) -> None:
        """Admit requests again."""

    @abstractmethod
    def reset_prefix_cache(self) -> bool:
        """Forget cached prefixes.

        Returns:
            False, with no effect, while any block is in use.

        Raises:
            StepError: A component called it.
        """

    # -- What can be read --------------------------------------------------------

    @property
    def has_unfinished(self) -> bool:
        """True while a request lives, is in flight, or has an unreported end."""
        view = self.view
        return bool(self.requests or view.num_in_flight or view.unreported_ends)

    @property
    @abstractmethod
    def has_signals(self) -> bool:
        """True if the next step heeds a ``signal``."""

    @property
    def next_timer(self) -> float | None:
        """Seconds on the clock at which a component wants to be called, or None."""
        return self.view.next_timer

    @property
    def num_waiting(self) -> int:
        """Number of waiting requests, those that wait for a key included."""
        return self.view.num_waiting

    @property
    def kv_manager(self) -> KVManager:
        """The KV manager that the configuration chose."""
        return self.components.kv

    @property
    def sizes(self) -> Sizes:
        """The fixed sizes of the run."""
        return self.ctx.sizes

    @property
    def clock(self) -> Clock:
        """The only source of time for decisions."""
        return self.ctx.clock

    @property
    def pipeline_depth(self) -> int:
        """Plans that may be in flight at once."""
        return self.settings.pipeline_depth

    @property
    def awaits_outside(self) -> bool:
        """True if the last step was empty, and nothing but an event outside can change that."""
        return False

    @property
    def awaits_resource(self) -> bool:
        """True if the last step was empty, and a request lacks a resource that names no key."""
        return False

    @property
    def fault_counts(self) -> dict[str, int]:
        """Faults that belonged to no request, by component and method."""
        return {}

    @property
    def num_component_faults(self) -> int:
        """Faults of components, those that belonged to a request included."""
        return sum(self.fault_counts.values())

    @property
    def estimator_was_asked(self) -> bool:
        """True if a component has asked ``ctx.estimator``."""
        return False

    def summaries(self) -> dict[str, dict[str, Any]]:
        """Return the summaries of observers by name; asked for at the end of a run."""
        return {}
