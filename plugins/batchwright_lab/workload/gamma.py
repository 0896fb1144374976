"""Arrivals with gaps of a chosen variability."""

from __future__ import annotations

import random
from collections.abc import Iterator

from attrs import frozen

from batchwright.option import option
from batchwright_lab.workload.made import Made, MadeOptions

__all__ = ["Gamma"]


@frozen(kw_only=True)
class Options(MadeOptions):
    """Options of gamma-distributed gaps."""

    cv: float = option(2.0, "Standard deviation of gaps divided by their mean.", gt=0)


class Gamma(Made):
    """Gamma-distributed gaps: a CV over 1 is burstier than Poisson, under 1 smoother."""

    name = "gamma"
    Options = Options

    def gaps(self, chance: random.Random) -> Iterator[float]:
        shape = 1 / self.options.cv**2
        scale = 1 / (self.options.rate * shape)
        while True:
            yield chance.gammavariate(shape, scale)
