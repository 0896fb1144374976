"""Keep some blocks free for those that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Gate
from batchwright.verdicts import ADMIT, Stop, Verdict

if TYPE_CHECKING:
    from batchwright.protocols import Need, PrefixHit
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["Watermark"]


@frozen
class Options:
    """Options of the watermark gate."""

    fraction: float = option(
        0.01, "Share of all blocks (0..1) that an admission leaves free.", ge=0, lt=1
    )
    need: Literal["full", "step"] = option(
        "full", "Tokens that must fit beside it: all known tokens, or those scheduled in this step."
    )


class Watermark(Gate):
    """Leave ``int(fraction * num_blocks)`` blocks free, so that decodes can grow.

    It counts only while a request runs (requests admitted earlier in the step included): an
    empty engine admits every request that fits. With ``need = "full"`` blocks that prompts in
    computation still need are not free. vLLM's ``watermark``, which does not count those.
    """

    name = "watermark"
    Options = Options

    def setup(self) -> None:
        self.num_blocks = int(self.options.fraction * self.ctx.sizes.num_blocks)

    def filter(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
        if not view.num_running:
            return ADMIT
        counts_all = self.options.need == "full"
        wanted = need.num_full_blocks if counts_all else need.num_step_blocks
        free, owed = view.num_free_blocks, 0
        if counts_all and not self.ctx.compat.forgets_half_prompts:
            owed = view.num_owed_blocks
        if wanted + owed + self.num_blocks <= free:
            return ADMIT
        others = f" and {owed} that prompts in computation still need" if owed else ""
        return Stop(
            f"needs {wanted} blocks beside a watermark of {self.num_blocks}{others}, "
            f"{free} are free"
        )
