"""Admission by predicted peak memory (Past-Future scheduler, Gong et al. 2025)."""

from __future__ import annotations

from batchwright import Gate, RequestView, StepView, hookimpl
from batchwright.protocols import Need, PrefixHit
from batchwright.verdicts import ADMIT, Stop, Verdict


class PredictedPeak(Gate):
    """Admits while the batch, at the fullest moment of its future, still fits.

    The batch grows by a token a request and step until somebody ends, as predicted, and
    gives its blocks back; so it is fullest just before one of the ends.
    """

    name = "predicted-peak"

    def sized(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
        if not view.num_running:
            return ADMIT
        peak = self.peak([*view.running, request])
        if peak <= view.num_usable_blocks:
            return ADMIT
        return Stop(f"the batch would grow to {peak} blocks")

    def peak(self, batch: list[RequestView]) -> int:
        """Blocks of a batch at its fullest moment: an upper bound, a partial block each."""
        ends = self.ctx.predict(*batch)
        lives = [
            (max(1, end - request.num_output_tokens), request.num_tokens)
            for request, end in zip(batch, ends, strict=True)
        ]
        size, fullest, held = self.ctx.limits.block_size, 0.0, 0
        for number, (left, tokens) in enumerate(sorted(lives, reverse=True), 1):
            held += tokens + size - 1
            fullest = max(fullest, held + number * (left - 1))  # the last token needs no slot
        return int(fullest) // size


@hookimpl
def batchwright_register_gate() -> list[type[Gate]]:
    """Offer the gate."""
    return [PredictedPeak]
