"""Admit while the batch, as predicted, will always fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Gate
from batchwright.verdicts import ADMIT, Stop, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchwright.protocols import Need, PrefixHit
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["PeakMemory"]


class PeakMemory(Gate):
    """Admits a request if the batch with it still fits at the fullest moment of its future.

    The batch grows by a token a request and step until a request ends, as predicted, and
    gives its blocks back; so it is fullest just before one of the ends. With requests by
    descending remaining length, the batch holds ``sum of the first i lengths so far + i *
    (remaining length of the i-th - 1)`` tokens before the end of the i-th; the peak is the
    largest of these (Past-Future scheduler, Gong et al. 2025). Each
    request counts a partial block; blocks shared by a prefix are counted for each sharer.
    Blocks are ever short only where ``scheduler.predictor`` was too low; under
    ``max-tokens`` never, at the price of a small batch. What runs alone is admitted.

    Starves nobody that others do not starve: it stops at the head of the queue.
    O(running log running) a candidate.
    """

    name = "peak-memory"

    def sized(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
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
        size = self.ctx.limits.block_size
        lives = [
            (max(1.0, total - request.num_output_tokens), request.num_tokens)
            for request, total in zip(batch, self.ctx.predict(*batch), strict=True)
        ]
        fullest, held = 0.0, 0
        for number, (left, num_tokens) in enumerate(sorted(lives, reverse=True), 1):
            held += num_tokens + size - 1
            fullest = max(fullest, held + number * (left - 1))  # the last token needs no slot
        return int(fullest) // size
