"""Measurements of the machine, by executors that can make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

__all__ = ["MeasuresLimits"]


@runtime_checkable
class MeasuresLimits(Protocol):
    """An executor that measures the limits of the machine, for ``batchwright bench``."""

    def measure_limits(self, num_rows: int) -> Mapping[str, float]:
        """Measure the machine; called outside of steps, on the thread that computes steps.

        Args:
            num_rows: Tokens of a step.

        Returns:
            Known limits of: ``products_seconds``, the time of the matrix products of the
            model's weights alone with so many rows as the executor computes them;
            ``plain_products_seconds``, as the library below it computes them;
            ``memory_bytes_per_second``, read and written, of a large copy.
        """
        ...
