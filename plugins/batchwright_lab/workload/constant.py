"""Arrivals like clockwork."""

from __future__ import annotations

import random
from collections.abc import Iterator

from batchwright_lab.workload.made import Made, MadeOptions

__all__ = ["Constant"]


class Constant(Made):
    """Arrivals with equal gaps."""

    name = "constant"
    Options = MadeOptions

    def gaps(self, chance: random.Random) -> Iterator[float]:
        while True:
            yield 1 / self.options.rate
