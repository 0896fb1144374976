"""Batchwright's components inside vLLM.

Select them by ``vllm serve MODEL --scheduler-cls batchwright_vllm.Scheduler``.

vLLM is imported when ``Scheduler`` is first used, so that plugins can be listed without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batchwright_vllm.scheduler import Scheduler

__all__ = ["Scheduler"]


def __getattr__(name: str) -> Any:
    if name != "Scheduler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from batchwright_vllm.requirements import check_vllm

    check_vllm()
    from batchwright_vllm.scheduler import Scheduler

    return Scheduler
