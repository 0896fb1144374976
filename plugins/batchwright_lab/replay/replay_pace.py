"""Compare a run with a recorded one, step by step, as long as they are the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from attrs import frozen

from batchwright.protocols import Observer
from batchwright_lab.recording.decision import Decision
from batchwright_lab.recording.log_file import follow_log

if TYPE_CHECKING:
    from batchwright.step_record import StepRecord
    from batchwright_lab.recording.recording import Recording
    from batchwright_lab.replay.replayed_executor import ReplayedExecutor
    from batchwright_plugins.observer.decision_trail import DecisionTrail

__all__ = ["Difference", "ReplayPace"]


@frozen
class Difference:
    """The first step that was decided otherwise.

    Args:
        step: Its id.
        time: When it began (seconds).
        recorded: The decision of the recorded run; None: it had no such step.
        replayed: The decision of the replay.
    """

    step: int
    time: float
    recorded: Decision | None
    replayed: Decision


class ReplayPace(Observer):
    """Let each step take as long as it did, as long as all decisions are the recorded ones.

    Attributes:
        num_steps: Steps that were planned.
        num_same: Those before the first difference.
        difference: The first difference, or None.
    """

    name = "replay-pace"

    def setup(self) -> None:
        self.num_steps = self.num_same = 0
        self.difference: Difference | None = None
        self._recorded: Iterator[DecisionTrail] = iter(())
        self._recording: Recording | None = None
        self._executor: Any = None

    def follow(self, recording: Recording, executor: ReplayedExecutor) -> None:
        """Print the baseline, and the source of step times."""
        self._recording, self._executor = recording, executor
        self._recorded = (trail for trail in follow_log(recording.path) if trail.is_step)

    def on_step(self, record: StepRecord) -> None:
        index = self.num_steps
        self.num_steps += 1
        if self.difference is not None or self._recording is None:
            return
        trail = next(self._recorded, None)
        recorded = None if trail is None else Decision.recorded(trail)
        made = Decision.made(record)
        if recorded is None or not recorded.is_like(made):
            self.difference = Difference(record.plan.step_id, record.view.now, recorded, made)
            return
        self.num_same += 1
        end = self._recording.ends[index]
        if end < math.inf:
            self._executor.known_ends[record.plan.step_id] = end
