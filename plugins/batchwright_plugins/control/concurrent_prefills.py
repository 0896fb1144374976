"""Bound how many prompts are computed at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Caps
from batchwright_plugins.control.prefill_tracker import PrefillTracker

if TYPE_CHECKING:
    from batchwright.step_view import StepView

__all__ = ["ConcurrentPrefills"]


@frozen
class Options:
    """Options of concurrent-prefills."""

    requests: int = option(1, "Most prompts in computation at a time.", unit="requests", ge=1)


class ConcurrentPrefills(PrefillTracker):
    """Admit a request only while fewer than ``requests`` prompts are being computed.

    A prompt is in computation from its admission to the end of the step that computes its last
    token; a prompt that fits into a single step counts in that step. With 1, prompts are
    computed one after the other: the first is done sooner, instead of all of them late. vLLM's
    ``max_num_partial_prefills``. A request that returns after a preemption counts until it has
    recomputed its tokens.

    Starves no request: a prompt in computation is scheduled at every step. O(1) a step.
    """

    name = "concurrent-prefills"
    Options = Options

    def caps(self, view: StepView) -> Caps | None:
        return Caps(num_admissions=max(0, self.options.requests - len(self.computing)))
