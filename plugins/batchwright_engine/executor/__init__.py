"""Executors that ship with Batchwright."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchwright.protocols.executor import Executor


@hookimpl
def batchwright_register_executor() -> Sequence[type[Executor]]:
    """Offer the executors; none of them imports torch before it loads a model."""
    from .simulated import Simulated
    from .torch_executor import TorchExecutor

    return [Simulated, TorchExecutor]
