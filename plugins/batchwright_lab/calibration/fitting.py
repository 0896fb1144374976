"""Fit coefficients that cannot be negative, by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.optimize import nnls

__all__ = ["fit"]

_ROUNDS: Final = 3
_OUTLIER: Final = 4.0


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
        ValueError: There are fewer rows than coefficients, or numbers beyond what can be
            computed with.
    """
    if not rows or len(rows) < len(rows[0]):
        raise ValueError(f"{len(rows)} steps are too few to fit anything to")
    with np.errstate(all="ignore"):
        products = np.asarray(rows, dtype=float) / np.asarray(values, dtype=float)[:, np.newaxis]
    if not np.isfinite(products).all():
        raise ValueError("a step's numbers are beyond what can be computed with")
    scales = np.abs(products).max(axis=0)
    scales[scales == 0] = 1.0
    kept = np.arange(len(rows))
    for _ in range(_ROUNDS):
        try:
            scaled, _ = nnls(products[kept] / scales, np.ones(len(kept)))
        except RuntimeError as error:  # it does not converge
            raise ValueError(str(error)) from error
        errors = np.abs(products @ (scaled / scales) - 1)
        bound = _OUTLIER * np.quantile(errors, 0.5, method="higher") + 1e-9
        kept = np.flatnonzero(errors <= bound)
    return [float(value) for value in scaled / scales], [int(index) for index in kept]
