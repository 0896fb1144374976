"""Let prompts gather before they are admitted."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Caps
from batchwright_plugins.control.waiting_ages import WaitingAges

if TYPE_CHECKING:
    from batchwright.step_view import StepView

__all__ = ["Delay"]


@frozen
class Options:
    """Options of delay."""

    factor: float = option(
        0.5, "Wait of the oldest request, in durations of the last prefill step.", ge=0, lt=inf
    )


class Delay(WaitingAges):
    """Admit no request until the oldest has waited ``factor`` times the last prefill's duration.

    Prompts that arrive one by one then share a step, and fewer steps of decodes are slowed
    down. The price is that much time to first token. Nothing is delayed while nothing runs.
    vLLM V0's ``scheduler_delay_factor``. A prefill's duration is that of the last step that
    computed more than decodes; idle time is not counted.

    A request that a gate holds back has waited, too: none is delayed meanwhile. Starves none:
    the wait is bounded by ``factor`` steps. O(1) a step.
    """

    name = "delay"
    Options = Options

    def setup(self) -> None:
        self._began = 0.0
        self._num_prefill_tokens = 0
        self._prefill_time = 0.0

    def caps(self, view: StepView) -> Caps | None:
        counts = self.ctx.counts
        num_prefill_tokens = counts.scheduled_tokens - counts.decode_tokens
        if num_prefill_tokens > self._num_prefill_tokens and view.num_running:
            self._prefill_time = view.now - self._began
        self._began, self._num_prefill_tokens = view.now, num_prefill_tokens
        earliest = self.earliest_arrival
        if earliest is None or not view.num_running:
            return None
        has_waited = view.now - earliest > self.options.factor * self._prefill_time
        return None if has_waited else Caps(num_admissions=0)
