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
    """Admit a request only if blocks for all of its known tokens are free.

    Known tokens are the prompt and, after a preemption, the outputs so far. Blocks of the
    prefix cache reduce the need if another request uses them already. Blocks that prompts in
    computation still need are not free. Without this gate chunked prefill checks the first
    chunk alone, and a long prompt may start that cannot finish. vLLM's
    ``scheduler_reserve_full_isl``, which does not count the need of other prompts.
    """

    name = "full-need"

    def filter(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
        wanted, free = need.num_full_blocks, view.num_free_blocks
        if wanted > free:
            return Stop(f"needs {wanted} blocks for its known tokens, {free} are free")
        owed = 0 if self.ctx.compat.forgets_half_prompts else view.num_owed_blocks
        if wanted + owed <= free:
            return ADMIT
        return Stop(
            f"needs {wanted} blocks for its known tokens, {free} are free, and prompts in "
            f"computation still need {owed}"
        )
