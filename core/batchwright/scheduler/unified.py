"""The default scheduler: one step, two scans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchwright.clock import Clock
from batchwright.default_plugins import DEFAULT_SCHEDULER
from batchwright.protocols import SchedulerBase
from batchwright.scheduler.results import Results
from batchwright.scheduler.state import State
from batchwright.scheduler.step import Step
from batchwright.scheduler.step_scheduler import StepScheduler
from batchwright.scheduler.turn import Turns


class Scheduler(StepScheduler):
    """Plans prefill and decode alike: running requests first, then admissions.

    Each request is scheduled until its computed tokens have caught up with its known ones,
    within one token budget a step. Decodes that nothing can cut are advanced together.
    Drive it by turns: ``schedule()``, compute the plan, ``update_from_output()``.
    """

    name = DEFAULT_SCHEDULER
    batches_decodes = True

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> SchedulerBase:
        """Build the scheduler that a configuration selects; needs no model.

        Args:
            config: The structure of the TOML file as a dict; every section is optional.
            clock: Defaults to the machine's monotonic clock.

        Raises:
            ConfigError: The configuration cannot be used.
            PluginError: A component that it selects cannot be had.
        """
        from batchwright.assembly import scheduler_from_config

        return scheduler_from_config(config or {}, clock=clock)

    def plan(self, step: Step) -> None:
        self._parts.running_scan.run(self._state.step)
        self._parts.waiting_scan.run(self._state.step)

    @property
    def insides(self) -> tuple[State, Results, Turns]:
        """Its state, results and turns, for a simulator that takes many steps at once."""
        return self._state, self._parts.results, self._turns
