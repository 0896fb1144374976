"""Leave a share of each step to decodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Caps, Control

if TYPE_CHECKING:
    from batchwright.step_view import StepView

__all__ = ["PrefillShare"]


@frozen
class Options:
    """Options of prefill-share."""

    share: float = option(
        0.5, "Share of max_num_batched_tokens (0..1) for prefill beside decodes.", gt=0, le=1
    )


class PrefillShare(Control):
    """Cap the prompt tokens of a step while others decode.

    A decode waits for the step that it is part of, and the step takes as long as its prompt
    tokens do. So the cap bounds the time between tokens, at the price of time to first token.
    With 1 a prompt may fill the step, as chunked prefill does by itself; smaller shares are the
    smaller chunks of Sarathi-Serve (Agrawal et al. 2024, section 4.3). If no request decoded in
    the last step nothing is capped.

    Starves no request: at least one prompt token is scheduled. O(1) a step.
    """

    name = "prefill-share"
    Options = Options

    def setup(self) -> None:
        budget = self.ctx.sizes.max_num_batched_tokens
        self._caps = Caps(num_prefill_tokens=max(1, int(self.options.share * budget)))
        self._num_decodes = 0

    def caps(self, view: StepView) -> Caps | None:
        before, self._num_decodes = self._num_decodes, self.ctx.counts.decode_tokens
        return self._caps if self._num_decodes > before else None
