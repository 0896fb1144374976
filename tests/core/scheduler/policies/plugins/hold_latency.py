"""A step control that shrinks prefill to hold a decode latency."""

from __future__ import annotations

from attrs import frozen

from batchwright.plugin import Caps, Control, StepView, hookimpl, option


@frozen
class Options:
    """Options of the control."""

    target: float = option(0.05, "Between two tokens of a request.", unit="seconds", gt=0)
    step: int = option(64, "Least cap, and how much it grows by.", unit="tokens", ge=1)


class HoldLatency(Control):
    """Halves the cap on prefill when a step with decodes took too long; else it grows."""

    name = "hold-latency"
    Options = Options

    def setup(self) -> None:
        self._most = self._cap = self.ctx.sizes.max_num_batched_tokens
        self._num_decodes, self._began = 0, 0.0

    def caps(self, view: StepView) -> Caps | None:
        num_decodes = self.ctx.counts.decode_tokens - self._num_decodes
        took = view.now - self._began
        self._num_decodes, self._began = self.ctx.counts.decode_tokens, view.now
        if not view.num_running:
            return None  # nobody is waiting for a token, and the time since then was idle
        if num_decodes and took > self.options.target:
            self._cap = max(self.options.step, self._cap // 2)
        else:
            self._cap = min(self._most, self._cap + self.options.step)
        return Caps(num_prefill_tokens=self._cap)


@hookimpl
def batchwright_register_control() -> list[type[Control]]:
    """Offer the control."""
    return [HoldLatency]
