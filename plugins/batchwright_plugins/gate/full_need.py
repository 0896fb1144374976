"""Admit a request only if all of its known tokens fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Gate
from batchwright.verdicts import ADMIT, Stop, Verdict

if TYPE_CHECKING:
    from batchwright.protocols import Need, PrefixHit
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["FullNeed"]


class FullNeed(Gate):
    """Admits a request only if blocks for all of its known tokens are free.

    Known tokens are the prompt and, after a preemption, the outputs so far; blocks
    that the prefix cache holds count as far as they are in use already. Without this
    gate chunked prefill checks the first chunk alone, and a long prompt may begin
    that cannot go on. The same as vLLM's ``scheduler_reserve_full_isl``.
    """

    name = "full-need"

    def sized(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
        if need.num_full_blocks <= view.num_free_blocks:
            return ADMIT
        return Stop(
            f"needs {need.num_full_blocks} blocks for its known tokens, "
            f"{view.num_free_blocks} are free"
        )
