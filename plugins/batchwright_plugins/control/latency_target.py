"""Cut prefill to what a step has time for."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Caps, StepShape
from batchwright_plugins.control.prefill_tracker import PrefillTracker

if TYPE_CHECKING:
    from batchwright.step_view import StepView

__all__ = ["LatencyTarget"]


@frozen
class Options:
    """Options of latency-target."""

    target: float = option(
        0.05, "Longest step while requests decode.", unit="seconds", gt=0, lt=inf
    )
    minimum: int = option(
        16, "Prompt tokens that are scheduled even in a late step.", unit="tokens", ge=1
    )


class LatencyTarget(PrefillTracker):
    """Bound the prompt tokens of a step by its time, with the estimator's inverse.

    The cap is the most prompt tokens with which the estimated step, with all decodes in it,
    ends within ``target``: small chunks while many requests decode behind long contexts, large
    ones while few do. A fixed chunk is right for one load only. Dynamic chunking, as in Niyama
    (Goel et al. 2025) and Sarathi-Serve (Agrawal et al. 2024, section 4.3, which profiles for
    one size). Nothing is capped while no request decodes.

    The contexts of decodes are taken as the tokens of all KV blocks in use, and that of the
    prompts as the longest of those being computed: both are upper bounds, and cost O(prompts in
    computation) a step. The target is met on average as well as ``scheduler.estimator``
    estimates. Starves no request: ``minimum`` tokens are scheduled in any case, so the target
    is missed if decodes alone take longer.
    """

    name = "latency-target"
    Options = Options

    def caps(self, view: StepView) -> Caps | None:
        num_decodes = view.num_running - len(self.computing)
        if num_decodes <= 0:
            return None
        used = (view.num_usable_blocks - view.num_free_blocks) * self.ctx.sizes.block_size
        decodes = StepShape(num_decodes=num_decodes, decode_context=used)
        longest = max((request.num_computed_tokens for request in self.computing), default=0)
        fitting = self.ctx.estimator.max_tokens(self.options.target, decodes, longest)
        return Caps(num_prefill_tokens=max(self.options.minimum, fitting))
