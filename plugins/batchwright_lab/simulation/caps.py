"""Caps on output tokens: what a request asks for, not what it will be given."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from batchwright.sampling_params import SamplingParams

if TYPE_CHECKING:
    from batchwright.protocols import Arrival, Workload

__all__ = ["Caps"]

_LEAST: Final = 256


class Caps:
    """Sampling parameters by arrival.

    Args:
        choice: ``simulation.max_tokens``.
        workload: Says how long outputs may be.
        chance: The stream of chance of caps.
    """

    def __init__(self, choice: int | str, workload: Workload, chance: random.Random) -> None:
        self._chance = chance
        self._known: dict[int, SamplingParams] = {}
        self._choice = choice
        self._class = _class(workload.max_output_tokens)

    def params(self, arrival: Arrival) -> SamplingParams:
        """Return the sampling parameters of a request."""
        cap = arrival.max_tokens or self._cap(arrival.num_output_tokens)
        params = self._known.get(cap)
        if params is None:
            params = self._known[cap] = SamplingParams(max_tokens=cap)
        return params

    def _cap(self, length: int) -> int:
        if self._choice == "class":
            return max(self._class, length)
        if self._choice == "exact":
            return length
        if self._choice == "drawn":
            classes = [_class(length)]
            while classes[-1] < self._class:
                classes.append(2 * classes[-1])
            return self._chance.choice(classes)
        return int(self._choice)


def _class(length: int) -> int:
    cap = _LEAST
    while cap < length:
        cap *= 2
    return cap
