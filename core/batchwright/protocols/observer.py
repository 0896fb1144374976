"""Observers: watch steps and requests, decide nothing."""

from __future__ import annotations

from batchwright.messages import StepOutputs
from batchwright.protocols.component import Component, Lifecycle
from batchwright.step_record import StepRecord


class Observer(Component, Lifecycle):
    """A watcher of steps and requests. Any number, in the order of the TOML file.

    Faults: an observer that raises is disabled with one warning.
    """

    def on_step(self, record: StepRecord) -> None:
        """Handle a plan.

        Args:
            record: The plan and its circumstances; valid during the call only.

        Cost class: step.
        """

    def on_outputs(self, outputs: StepOutputs) -> None:
        """Handle the committed results of a step.

        Cost class: step.
        """

    def flush(self) -> None:
        """Write what is held back; called when a runtime is idle that may be killed at its end.

        Cost class: event.
        """

    def summary(self) -> dict[str, object]:
        """Return its results, for tables and JSON; called at the end, or any time."""
        return {}
