"""Fast-forward: many simulated steps at once, where a step decides nothing.

A component that watches plans, or is asked at every step, switches it off by being there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols.component import overrides

if TYPE_CHECKING:
    from batchwright.protocols import Executor, SchedulerBase
    from batchwright.request import Finish

__all__ = ["FastForwarder"]


class FastForwarder:
    """Take a scheduler and its executor over steps in which nothing is decided.

    Args:
        scheduler: The scheduler; it must not have a plan in flight.
        executor: Its executor.
    """

    def __init__(self, scheduler: SchedulerBase, executor: Executor) -> None:
        self._executor = executor
        self._steps = scheduler.fast_forwarding
        components = scheduler.components
        self._is_possible = (
            self._steps is not None
            and self._steps.is_possible
            and overrides(executor, "fast_forward")
            and not executor.has_worker_sides
            and not components.features
            and not any(overrides(control, "caps") for control in components.controls)
            and not any(
                overrides(component, event)
                for component in components
                for event in ("on_step", "on_outputs")
            )
        )
        policy = components.policy
        self._asks_who_waits = (
            overrides(policy, "running_to_preempt")
            or overrides(policy, "preempts")
            or any(overrides(gate, "open") for gate in components.gates)
        )

    def run(self, until: float) -> dict[str, Finish] | None:
        """Compute many steps, as far as nothing is decided in them.

        Args:
            until: No step begins at that time or later (seconds).

        Returns:
            By request, how it has ended; None if the next step is one to plan.
        """
        steps = self._steps
        if steps is None or not self._is_possible:
            return None
        if steps.has_candidates and (self._asks_who_waits or not steps.is_full):
            return None
        plan = steps.plan(until)
        if plan is None:
            return None
        return steps.commit(self._executor.fast_forward(plan))
