"""Measurements of the machine, by executors that can make them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from batchwright_engine.engine import Engine

__all__ = ["MeasuresLimits", "measure_limits"]


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


def measure_limits(engine: Engine, num_rows: int) -> Mapping[str, float]:
    """Measure the limits of the machine; empty if the executor cannot measure them."""
    executor = engine.executor
    if not isinstance(executor, MeasuresLimits):
        return {}
    return engine.call(partial(executor.measure_limits, num_rows))
