"""The scheduler's own settings: what is no component's choice."""

from __future__ import annotations

from attrs import field, frozen

from batchwright.compat import Compat


@frozen(kw_only=True)
class SchedulerSettings:
    """Settings of the step itself.

    Args:
        max_num_scheduled_tokens: Tokens scheduled in a step at most.
        pipeline_depth: Plans that may be in flight at once.
        max_policy_preemptions: Times that a request yields voluntarily; then it is immune.
        group_time_to_live: Seconds that a group is remembered after its last request.
        scan_window: Waiting requests that a scan may pass over without a key.
        backfill: Waiting requests without room that a scan may pass over.
        max_bypasses: Requests that are admitted past one without room; then none is.
        max_futile_preemptions: Preemptions of a request without an output in between, after
            which it is admitted only if all of its known tokens fit.
        stall_steps: Steps without any progress before the progress guard steps in.
        max_component_faults: Faults of one component in a row that end the run.
        slow_component_seconds: Calls of components that take longer are reported.
        compat: Habits of another engine that are taken over.
    """

    max_num_scheduled_tokens: int
    pipeline_depth: int = 1
    max_policy_preemptions: int = 3
    group_time_to_live: float = 600.0
    scan_window: int = 64
    backfill: int = 0
    max_bypasses: int = 64
    max_futile_preemptions: int = 3
    stall_steps: int = 3
    max_component_faults: int = 3
    slow_component_seconds: float | None = None
    compat: Compat = field(factory=Compat)
