"""Piecewise linear functions of several variables, through measured points."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

__all__ = ["Curve", "Surface"]


class Curve:
    """A function of one variable: straight between points, and beyond them.

    Args:
        points: Argument and value, in any order; an argument that is there twice has the
            mean of its values.
    """

    def __init__(self, points: Iterable[tuple[float, float]]) -> None:
        values: dict[float, list[float]] = {}
        for argument, value in points:
            values.setdefault(argument, []).append(value)
        self.arguments = sorted(values)
        self.values = [sum(values[a]) / len(values[a]) for a in self.arguments]

    def __call__(self, argument: float) -> float:
        arguments, values = self.arguments, self.values
        below = bracket(arguments, argument)
        if below is None:
            return values[0]
        left, right = arguments[below], arguments[below + 1]
        share = (argument - left) / (right - left)
        value = values[below] + share * (values[below + 1] - values[below])
        return max(value, _FLOOR * values[0])


class Surface:
    """A function of several variables, linear between the points of a grid.

    The grid may have holes and need not be regular: each variable is interpolated between
    those of its values that were measured together with the ones before it.

    Args:
        points: Arguments and value.
        depth: Number of arguments.
    """

    def __init__(self, points: Iterable[tuple[Sequence[float], float]], depth: int) -> None:
        groups: dict[float, list[tuple[Sequence[float], float]]] = {}
        for arguments, value in points:
            groups.setdefault(arguments[-depth], []).append((arguments, value))
        self._keys = sorted(groups)
        self._parts: list[Surface | Curve] = [
            Surface(groups[key], depth - 1)
            if depth > 2
            else Curve((arguments[-1], value) for arguments, value in groups[key])
            for key in self._keys
        ]
        self._depth = depth

    def __call__(self, *arguments: float) -> float:
        keys, parts = self._keys, self._parts
        first, rest = arguments[0], arguments[1:]
        below = bracket(keys, first)
        if below is None:
            return parts[0](*rest)
        left, right = keys[below], keys[below + 1]
        share = (first - left) / (right - left)
        low = parts[below](*rest)
        if not share:
            return low
        high = parts[below + 1](*rest)
        return max(low + share * (high - low), _FLOOR * min(low, high))


_FLOOR = 0.1
"""Beyond the grid a line may lead to nothing; no less than this share of what is known."""


def bracket(keys: Sequence[float], key: float) -> int | None:
    """Index of the first of the two points that a line goes through; None: there is one."""
    if len(keys) < 2:
        return None
    return min(max(bisect_right(keys, key) - 1, 0), len(keys) - 2)
