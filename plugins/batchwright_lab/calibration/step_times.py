"""Shapes and times of the steps of a decision log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from batchwright.protocols import StepShape
from batchwright_plugins.observer.decision_trail import DecisionTrail

__all__ = ["step_times"]


def step_times(trails: Iterable[DecisionTrail]) -> Iterator[tuple[StepShape, float]]:
    """Shapes and times (seconds) of steps, from a decision log.

    A step took as long as it is to the beginning of the next one, where that computes
    something, too: a pause of the engine is none of its work.

    Args:
        trails: Of the log, line by line.
    """
    computed: dict[str, int] = {}
    last: tuple[StepShape, float] | None = None
    for trail in trails:
        if not trail.is_step:
            continue
        shape = _shape(trail, computed)
        if last is not None and shape.num_tokens and trail.time > last[1]:
            yield last[0], trail.time - last[1]
        last = (shape, trail.time) if shape.num_tokens else None


def _shape(trail: DecisionTrail, computed: dict[str, int]) -> StepShape:
    """The shape of a step; contexts are brought up to date."""
    computed.update(trail.admitted)
    shape = StepShape.of((n, computed.get(name, 0)) for name, n in trail.grants.items())
    for name, num_tokens in trail.grants.items():
        computed[name] = computed.get(name, 0) + num_tokens
    for name in [name for name in computed if name not in trail.running]:
        if name not in trail.waiting:
            del computed[name]
    return shape
