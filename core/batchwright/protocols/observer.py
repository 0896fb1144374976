"""Observers: watch, never decide."""

from __future__ import annotations

from batchwright.messages import StepOutputs
from batchwright.protocols.component import Component, Lifecycle
from batchwright.step_record import StepRecord


class Observer(Component, Lifecycle):
    """Watches steps and requests. Any number, in the order of the TOML file.

    Faults: an observer that raises is disabled with one warning.
    """

    def on_step(self, record: StepRecord) -> None:
        """A plan was made.

        Args:
            record: The plan and how it came about; valid during the call only.

        Cost class: step.
        """

    def on_outputs(self, outputs: StepOutputs) -> None:
        """A step's results were committed.

        Cost class: step.
        """

    def summary(self) -> dict[str, object]:
        """What it has seen, for tables and JSON; called at the end, or any time."""
        return {}
