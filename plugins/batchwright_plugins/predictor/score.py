"""The accuracy of predictions."""

from __future__ import annotations

import random

__all__ = ["Score"]

_MOST_PAIRS = 1000


class Score:
    """Compare predictions with true lengths, on a sample of bounded size.

    Args:
        chance: Which pairs are kept, once there are more than fit.
    """

    def __init__(self, chance: random.Random) -> None:
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
    score = first = second = 0
    for index, (a, b) in enumerate(pairs):
        for c, d in pairs[:index]:
            left, right = (a > c) - (a < c), (b > d) - (b < d)
            score += left * right
            first += left != 0
            second += right != 0
    return score / (first * second) ** 0.5 if first and second else None
