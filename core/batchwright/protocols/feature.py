"""Features: parts that only make sense together, shipped and switched as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import Factory, frozen

from batchwright.messages import ModelOutput, SchedulerOutput
from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView


@frozen
class FeatureComponent:
    """A component that belongs to a feature.

    Args:
        component: Its class: a Gate, Control, Limit, Resource or Observer. It reaches the
            feature as ``ctx.parts["feature"]``.
        options: Its options, as a TOML table would hold them.
    """

    component: type[Component]
    options: dict[str, Any] = Factory(dict)


class WorkerSide:
    """What a feature does where the model is computed.

    It is made by ``Feature.worker_side`` and may live in another process, or on another
    thread (``Executor.runs_in_background``): it sees plans and answers, nothing of the
    scheduler.
    """

    def before_step(self, plan: SchedulerOutput, extra: Any) -> None:
        """Prepare a step.

        Args:
            plan: What is to be computed.
            extra: What the scheduler half said (``plan.extras[name]``), or None.
        """

    def after_step(self, plan: SchedulerOutput, output: ModelOutput) -> Any:
        """Look at what was computed.

        Returns:
            What the scheduler half is told; None: nothing.
        """
        return None

    def on_restart(self) -> None:
        """The executor was restarted: requests and the KV cache's content are lost."""


class Feature(Component, Lifecycle):
    """Several parts under one name: ``[[feature]] use = "..."`` switches all of them.

    Its parts take their place behind those that the TOML lists. A request speaks to it
    through ``Request.features[name]``; one that speaks to a feature that is not
    configured is refused.

    Faults: an exception in ``check`` refuses the request; one in ``build_metadata``,
    ``update_from_worker`` or ``on_restart`` is counted, and several in a row end the run with
    PluginError. An exception in the executor half is a failure of the step.
    """

    def components(self) -> Sequence[FeatureComponent]:
        """The components that belong to it. Called once, before they are built."""
        return ()

    def worker_side(self) -> WorkerSide | None:
        """Make the half that works where the model is computed. Called once."""
        return None

    def check(self, request: RequestView, data: Any) -> str | None:
        """Check what a request says to this feature; why it is refused, or None.

        Cost class: event.
        """
        return None

    def build_metadata(self, plan: SchedulerOutput) -> Any:
        """What the executor half is told with a plan; None: nothing.

        Cost class: step.
        """
        return None

    def update_from_worker(self, extra: Any) -> None:
        """What the executor half answered; called only if it did.

        Cost class: step.
        """

    def on_restart(self) -> None:
        """The executor failed: what was said with plans in flight will not be answered.

        A request that is parked until an answer comes must be woken (``ctx.signal``), or asked
        for again with the next plan.

        Cost class: event.
        """
