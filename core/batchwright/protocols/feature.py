"""Features: components that only make sense together, shipped and selected as one."""

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
            feature as ``ctx.components["feature"]``.
        options: Its options, as a TOML table would hold them.
    """

    component: type[Component]
    options: dict[str, Any] = Factory(dict)


class WorkerSide:
    """The part of a feature that works beside the executor.

    It is made by ``Feature.worker_side`` and may live in another process, or on another
    thread (``Executor.runs_in_background``): it sees plans and answers, nothing of the
    scheduler.
    """

    def before_step(self, plan: SchedulerOutput, extra: Any) -> None:
        """Prepare a step.

        Args:
            plan: The plan of the step.
            extra: Metadata from the scheduler's side (``plan.extras[name]``), or None.
        """

    def after_step(self, plan: SchedulerOutput, output: ModelOutput) -> Any:
        """Look at the result of a step.

        Returns:
            Data for the scheduler's side; None: nothing.
        """
        return None

    def on_restart(self) -> None:
        """Handle a restart of the executor: requests and the content of the KV cache are lost."""


class Feature(Component, Lifecycle):
    """Several components under one name: ``[[feature]] use = "..."`` selects all of them.

    Its components come after those that the TOML lists. A request passes data to it by
    ``Request.features[name]``. A request with data for a feature that is not configured is
    refused.

    Faults: an exception in ``check`` refuses the request; one in ``build_metadata``,
    ``update_from_worker`` or ``on_restart`` is counted, and several in a row end the run with
    PluginError. An exception in the worker side is a failure of the step.
    """

    def components(self) -> Sequence[FeatureComponent]:
        """Return the components that belong to it. Called once, before they are built."""
        return ()

    def worker_side(self) -> WorkerSide | None:
        """Make the part that works beside the executor. Called once."""
        return None

    def check(self, request: RequestView, data: Any) -> str | None:
        """Check the data of a request for this feature; return the reason to refuse it, or None.

        Cost class: event.
        """
        return None

    def build_metadata(self, plan: SchedulerOutput) -> Any:
        """Return the metadata that is sent to the worker side with a plan; None: nothing.

        Cost class: step.
        """
        return None

    def update_from_worker(self, extra: Any) -> None:
        """Take the answer of the worker side; called only if there is one.

        Cost class: step.
        """

    def on_restart(self) -> None:
        """Handle a failure of the executor: metadata of plans in flight will not be answered.

        For a request that waits for such an answer, call ``ctx.signal``, or ask again with the
        next plan.

        Cost class: event.
        """
