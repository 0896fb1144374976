"""Distributions of lengths."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

from attrs import frozen

from batchwright.option import option

__all__ = ["Lengths"]


@frozen
class Lengths:
    """Lengths of prompts or outputs.

    Args:
        distribution: constant; uniform between half and one and a half means; exponential;
            lognormal; zipf: many short ones, few as long as the most.
        mean: Their mean before it is cut to the limits.
        cv: Standard deviation over mean, of lognormal.
        least: Least length.
        most: Greatest length.
    """

    distribution: Literal["constant", "uniform", "exponential", "lognormal", "zipf"] = "lognormal"
    mean: float = option(512.0, unit="tokens", gt=0)
    cv: float = option(1.0, ge=0)
    least: int = option(1, unit="tokens", ge=1)
    most: int = option(4096, unit="tokens", ge=1)

    def draw(self, chance: random.Random) -> Iterator[int]:
        """Lengths without end (tokens)."""
        sample = _SAMPLERS[self.distribution]
        while True:
            yield max(self.least, min(self.most, round(sample(self, chance))))


def _lognormal(lengths: Lengths, chance: random.Random) -> float:
    variance = math.log1p(lengths.cv**2)
    return chance.lognormvariate(math.log(lengths.mean) - variance / 2, math.sqrt(variance))


def _zipf(lengths: Lengths, chance: random.Random) -> float:
    """Density 1 / length between least and most: as many in each octave."""
    ratio = math.log(lengths.most / lengths.least)
    return lengths.least * math.exp(ratio * chance.random())


_SAMPLERS: dict[str, Callable[[Lengths, random.Random], Any]] = {
    "constant": lambda lengths, _: lengths.mean,
    "uniform": lambda lengths, chance: chance.uniform(lengths.mean / 2, lengths.mean * 3 / 2),
    "exponential": lambda lengths, chance: chance.expovariate(1 / lengths.mean),
    "lognormal": _lognormal,
    "zipf": _zipf,
}
