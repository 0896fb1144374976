"""Fit coefficients that cannot be negative, by least squares."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["fit", "solve"]

_ROUNDS = 3
_OUTLIER = 4.0


def fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> tuple[list[float], list[int]]:
    """Coefficients >= 0 for which the rows' products come closest to the values.

    Errors are relative to the values, so that short steps count as much as long ones. A
    value four median errors away from the fit (a machine that did something else) is left
    out of the next round.

    Args:
        rows: Of equal length, finite.
        values: One a row, > 0.

    Returns:
        The coefficients, and the indices of the rows that were not left out.

    Raises:
        ValueError: There are fewer rows than coefficients.
    """
    if len(rows) < len(rows[0]) if rows else True:
        raise ValueError(f"{len(rows)} steps are too few to fit anything to")
    kept = list(range(len(rows)))
    found: list[float] = []
    for _ in range(_ROUNDS):
        found = _non_negative([rows[i] for i in kept], [values[i] for i in kept])
        errors = [abs(_dot(found, row) / v - 1) for row, v in zip(rows, values, strict=True)]
        bound = _OUTLIER * sorted(errors)[len(errors) // 2] + 1e-9
        kept = [i for i, error in enumerate(errors) if error <= bound]
    return found, kept


def _non_negative(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Drop what would become negative, the most negative first, until nothing does."""
    width = len(rows[0])
    used = list(range(width))
    while used:
        found = _least_squares([[row[i] for i in used] for row in rows], values)
        least = min(range(len(used)), key=found.__getitem__)
        if found[least] >= 0:
            by_index = dict(zip(used, found, strict=True))
            return [by_index.get(i, 0.0) for i in range(width)]
        del used[least]
    return [0.0] * width


def _least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Solve the normal equations, each row divided by its value, each column by its scale."""
    width = len(rows[0])
    scales = [max(abs(row[i]) for row in rows) or 1.0 for i in range(width)]
    matrix = [[0.0] * width for _ in range(width)]
    right = [0.0] * width
    for row, value in zip(rows, values, strict=True):
        scaled = [row[i] / scales[i] / value for i in range(width)]
        for i in range(width):
            right[i] += scaled[i]
            for j in range(width):
                matrix[i][j] += scaled[i] * scaled[j]
    return [x / scale for x, scale in zip(solve(matrix, right), scales, strict=True)]


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve linear equations by elimination; what they leave open is 0.

    Args:
        matrix: Square; left as it is.
        right: As long.
    """
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    pivots: list[int | None] = []
    top = 0
    for column in range(size):
        best = max(range(top, size), key=lambda i: abs(rows[i][column]), default=top)
        if top >= size or abs(rows[best][column]) < 1e-12 * max(1.0, abs(matrix[column][column])):
            pivots.append(None)
            continue
        rows[top], rows[best] = rows[best], rows[top]
        for i in range(size):
            if i != top:
                factor = rows[i][column] / rows[top][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[top], strict=True)]
        pivots.append(top)
        top += 1
    return [
        0.0 if pivot is None else rows[pivot][size] / rows[pivot][column]
        for column, pivot in enumerate(pivots)
    ]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
