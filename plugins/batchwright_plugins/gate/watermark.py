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

    fraction: float = option(0.01, "Share of all blocks that an admission leaves free.", ge=0, lt=1)
    need: Literal["full", "step"] = option(
        "full", "What must fit beside it: all known tokens, or this step's grant."
    )


class Watermark(Gate):
    """Leaves ``int(fraction * num_blocks)`` blocks free, so that decodes can grow.

    It counts only while something runs (requests admitted earlier in the step
    included): an empty engine admits whatever fits. vLLM's ``watermark``.
    """

    name = "watermark"
    Options = Options

    def setup(self) -> None:
        self.num_blocks = int(self.options.fraction * self.ctx.limits.num_blocks)

    def sized(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
        if not view.num_running:
            return ADMIT
        wanted = need.num_full_blocks if self.options.need == "full" else need.num_step_blocks
        if wanted + self.num_blocks <= view.num_free_blocks:
            return ADMIT
        return Stop(
            f"needs {wanted} blocks beside a watermark of {self.num_blocks}, "
            f"{view.num_free_blocks} are free"
        )
