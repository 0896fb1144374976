"""Shortest remaining output first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright_plugins.policy.patient_queue import PatientQueue
from batchwright_plugins.policy.pausing_policy import PausingPolicy

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView

__all__ = ["Srpt"]


@frozen
class Options:
    """Options of srpt."""

    pausing: bool = option(True, "True if running requests pause for shorter waiting ones.")
    max_wait: float | None = option(
        60.0,
        "Time in the queue after which a request is next, of any length.",
        unit="seconds",
        default_text="60; none: no bound",
        ge=0,
    )


class Srpt(PausingPolicy):
    """Shortest remaining processing time: the least predicted remaining output first.

    The key is ``predicted output tokens - output tokens so far``, never below 0; ties fall to
    arrival. While a shorter request waits for a seat, the longest running request pauses. It
    keeps its blocks until another request lacks them. SRPT has the least mean completion time
    of all orders on one server (Schrage 1968). For LLM serving with predicted lengths see
    "Efficient LLM Scheduling by Learning to Rank" (Fu et al. 2024) and TRAIL (Shahout et al.
    2024). TRAIL also bounds the preemptions of a request, as
    ``scheduler.max_policy_preemptions`` does here. It is as good as ``scheduler.predictor``:
    with ``max-tokens`` it orders by the caps.

    Starves long requests while shorter ones keep coming. ``max_wait`` bounds each wait of a
    request before it is next. O(log waiting); O(running) in a step in which a request may have
    to pause.
    """

    name = "srpt"
    Options = Options

    def make_queue(self) -> PatientQueue:
        if not self.options.pausing:
            self.idle_methods = ("on_admit", "running_to_preempt")
        return PatientQueue(self.key, self.ctx, self.options.max_wait)

    def key(self, request: RequestView) -> Key:
        (output_tokens,) = self.ctx.predict(request)
        return max(0.0, output_tokens - request.num_output_tokens)
