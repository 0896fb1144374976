"""The limits of the machine, as executors that know them measure them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

__all__ = ["MeasuresLimits"]


@runtime_checkable
class MeasuresLimits(Protocol):
    """An executor that can tell what the machine allows; ``batchwright bench`` asks it."""

    def measure_limits(self, num_rows: int) -> Mapping[str, float]:
        """Measure the machine; called outside of steps, where steps are computed.

        Args:
            num_rows: Tokens of a step.

        Returns:
            Where it can be told: ``products_seconds``, the time that the matrix products
            of the model's weights with so many rows take by themselves as the executor
            computes them, ``plain_products_seconds`` as the library below it does, and
            ``memory_bytes_per_second``, read and written, of a large copy.
        """
        ...
