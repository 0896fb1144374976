"""The accuracy of predictions."""

from __future__ import annotations

import math
import random
from importlib.util import find_spec

from batchwright.exceptions import ConfigError
from batchwright_plugins.extras import install_hint

__all__ = ["Score"]

_MOST_PAIRS = 1000


class Score:
    """Compare predictions with true lengths, on a sample of bounded size.

    Args:
        chance: Which pairs are kept, once there are more than fit.

    Raises:
        ConfigError: There is nothing to compare orders with.
    """

    def __init__(self, chance: random.Random) -> None:
        if find_spec("scipy") is None:
            raise ConfigError(
                f"a score of predictions takes scipy, which is missing: {install_hint('lab')}"
            )
        self._chance = chance
        self._pairs: list[tuple[float, float]] = []
        self._count = 0

    def add(self, predicted: float, actual: float) -> None:
        """Take in one request."""
        self._count += 1
        if len(self._pairs) < _MOST_PAIRS:
            self._pairs.append((predicted, actual))
            return
        place = self._chance.randrange(self._count)
        if place < _MOST_PAIRS:
            self._pairs[place] = predicted, actual

    def summary(self) -> dict[str, object]:
        """Requests, Kendall's tau-b (1: the same order, 0: none), mean relative error."""
        errors = [abs(predicted - actual) / actual for predicted, actual in self._pairs if actual]
        return {
            "predicted_requests": self._count,
            "kendall_tau": kendall_tau(self._pairs),
            "mean_relative_error": sum(errors) / len(errors) if errors else None,
        }


def kendall_tau(pairs: list[tuple[float, float]]) -> float | None:
    """Kendall's tau-b: agreement of two orders, ties accounted for.

    None where one side is all ties. (Kendall 1945, "The treatment of ties".)
    """
    from scipy.stats import kendalltau

    if len(pairs) < 2:
        return None
    found = float(kendalltau(*zip(*pairs, strict=True)).statistic)
    return None if math.isnan(found) else found
