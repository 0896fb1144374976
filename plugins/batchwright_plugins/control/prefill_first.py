"""Compute prompts before decodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Caps
from batchwright_plugins.control.prefill_tracker import PrefillTracker

if TYPE_CHECKING:
    from batchwright.step_view import StepView

__all__ = ["PrefillFirst"]


@frozen
class Options:
    """Options of prefill-first."""

    max_steps: int = option(
        4, "Most steps in a row in which decodes wait for prompts.", unit="steps", ge=1
    )


class PrefillFirst(PrefillTracker):
    """Decodes wait while there are prompts to compute, at most ``max_steps`` steps in a row.

    Steps are then all prompts or all decodes. Time to first token is shorter while seats and
    blocks are free. A request sees a gap of up to ``max_steps + 1`` steps between two tokens,
    each of them a full one (a generation stall). It takes more steps, and requests hold seats
    and blocks for longer: near saturation time to first token gets longer, too. vLLM V0
    schedules so without chunked prefill, with no bound. It is the prefill-prioritizing end of
    the scale in Sarathi-Serve (Agrawal et al. 2024, section 3); ``decode-first`` is the other
    one. In a step in which no prompt gets any tokens, for lack of blocks or seats, decodes do
    not wait. While they wait, their drafts are dropped.

    Starves no request: a step with decodes comes after ``max_steps`` others. O(1) a step.
    """

    name = "prefill-first"
    Options = Options

    def setup(self) -> None:
        self._num_waited = self._num_decodes = 0

    def caps(self, view: StepView) -> Caps | None:
        before, self._num_decodes = self._num_decodes, self.ctx.counts.decode_tokens
        if self._num_decodes > before:
            self._num_waited = 0
        decode = view.num_running > len(self.computing)
        has_prompts = self.computing or view.num_waiting > view.num_parked
        if not (decode and has_prompts) or self._num_waited >= self.options.max_steps:
            return None
        self._num_waited += 1
        return Caps(num_decode_tokens=0, num_draft_tokens=0)
