"""Arrivals that know nothing of one another."""

from __future__ import annotations

import random
from collections.abc import Iterator

from batchwright_lab.workload.made import Made, MadeOptions

__all__ = ["Poisson"]


class Poisson(Made):
    """A Poisson process: exponential gaps with a CV of 1."""

    name = "poisson"
    Options = MadeOptions

    def gaps(self, chance: random.Random) -> Iterator[float]:
        while True:
            yield chance.expovariate(self.options.rate)
