"""Arrivals that come in bursts."""

from __future__ import annotations

import random
from collections.abc import Iterator

from attrs import frozen

from batchwright.option import option
from batchwright_lab.workload.made import Made, MadeOptions

__all__ = ["Bursty"]


@frozen(kw_only=True)
class Options(MadeOptions):
    """Options of bursts."""

    burst_seconds: float = option(5.0, "Mean length of a burst.", unit="seconds", gt=0)
    calm_seconds: float = option(20.0, "Mean time between bursts.", unit="seconds", gt=0)
    factor: float = option(10.0, "Factor on the rate of arrivals in a burst.", ge=1)


class Bursty(Made):
    """A Poisson process whose rate jumps: bursts and calms of exponential length in turn.

    ``rate`` is the mean over both. (A Markov-modulated Poisson process of two states.)
    """

    name = "bursty"
    Options = Options

    def gaps(self, chance: random.Random) -> Iterator[float]:
        options = self.options
        span = options.burst_seconds + options.calm_seconds
        calm = options.rate * span / (options.calm_seconds + options.factor * options.burst_seconds)
        phases = ((calm, options.calm_seconds), (calm * options.factor, options.burst_seconds))
        index, gap = 0, 0.0
        left = chance.expovariate(1 / phases[0][1])
        while True:
            step = chance.expovariate(phases[index][0])
            if step < left:  # without memory, so that each phase may begin anew
                left -= step
                yield gap + step
                gap = 0.0
            else:
                gap += left
                index = 1 - index
                left = chance.expovariate(1 / phases[index][1])
