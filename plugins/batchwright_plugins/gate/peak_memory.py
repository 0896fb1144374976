"""Admit while the batch, as predicted, will always fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define

from batchwright.protocols import Gate
from batchwright.verdicts import ADMIT, Stop, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchwright.protocols import Need, PrefixHit
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["PeakMemory"]


@define
class Offered:
    """The step in which a request was offered all of its tokens."""

    whole_in_step: int | None = None


class PeakMemory(Gate):
    """Admit a request if the batch with it still fits at the fullest moment of its future.

    The batch grows by a token a request and step until a request ends, as predicted, and
    returns its blocks; so it is fullest just before one of the ends. With requests by
    descending remaining length, the batch holds ``sum of the first i lengths so far + i *
    (remaining length of the i-th - 1)`` tokens before the end of the i-th; the peak is the
    largest of these (Past-Future scheduler, Gong et al. 2025). A prompt that takes more than
    this step falls behind the others, by an unknown length: it counts to the last end, growing
    as they do. Each request counts a partial block; blocks shared by a prefix are counted for
    each sharer. Blocks run out only if ``scheduler.predictor`` was too low. Under
    ``max-tokens`` they never do, at the price of a small batch. A request is admitted if
    nothing else runs.

    Starves no request that others do not starve: it stops at the head of the queue. O(running
    log running) a candidate, and running times the prompts in computation.
    """

    name = "peak-memory"
    Data = Offered

    def filter(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
        is_whole = need.num_step_blocks == need.num_full_blocks
        if is_whole and view.num_tokens_left >= request.num_tokens - hit.num_tokens:
            self.ctx.data(request).whole_in_step = view.step_id
        if not view.num_running:
            return ADMIT
        peak = self.peak([*view.running, request])
        if peak <= view.num_usable_blocks:
            return ADMIT
        return Stop(
            f"the batch would grow to {peak} blocks, of which there are {view.num_usable_blocks}"
        )

    def peak(self, batch: Sequence[RequestView]) -> int:
        """Blocks that a batch will hold at its fullest moment."""
        size = self.ctx.sizes.block_size
        even: list[tuple[float, int]] = []
        behind: list[tuple[float, int]] = []
        for request, total in zip(batch, self.ctx.predict(*batch), strict=True):
            # The last token needs no slot.
            grows = max(0.0, total - request.num_output_tokens - 1)
            life = grows, request.num_tokens + size - 1
            (behind if self._is_behind(request) else even).append(life)
        later = [(grows, 0) for grows, _ in behind]  # when these do not grow any more
        fullest, held = 0.0, sum(tokens for _, tokens in behind)
        number = 0
        for grows, tokens in sorted([*even, *later], reverse=True):
            held += tokens
            number += tokens > 0
            slow = sum(min(grows, most) for most, _ in behind)
            fullest = max(fullest, held + number * grows + slow)
        return int(fullest) // size

    def _is_behind(self, request: RequestView) -> bool:
        """Return True if a request's prompt takes further steps, as far as is known."""
        if (
            self.ctx.data(request).whole_in_step == self.ctx.view.step_id
        ):  # it gets all of it in this step
            return False
        return request.num_tokens - request.num_computed_tokens > 1
