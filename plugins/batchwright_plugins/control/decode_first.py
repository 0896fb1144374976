"""Finish decodes before prompts are let in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Caps
from batchwright_plugins.control.waiting_ages import WaitingAges

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["DecodeFirst"]


@frozen
class Options:
    """Options of decode-first."""

    fraction: float = option(
        0.5, "Share of a batch (0..1) that is left when others are admitted.", ge=0, lt=1
    )
    max_wait: float | None = option(
        2.0,
        "Age of the oldest waiting request at which others are admitted in any case.",
        unit="seconds",
        default_text="2; none: no bound",
        ge=0,
    )


class DecodeFirst(WaitingAges):
    """Admit in bursts: no request until most of the last burst's batch is done.

    After a step that admits none the batch is closed. It opens when at most ``fraction`` of it
    still runs, or when a request has waited for ``max_wait``. In between every step only
    decodes, so that the time between tokens is as short as possible, at the price of time to
    first token. ``fraction = 0`` is request-level batching as in FasterTransformer, the
    decode-prioritizing end of the scale in Sarathi-Serve (Agrawal et al. 2024, section 3);
    ``prefill-share`` moves between the others.

    A request that a gate holds back waits as well: from ``max_wait`` on all are admitted, and
    under an overload in which all wait for longer it changes nothing. Starves none while
    ``max_wait`` is set. Without it prompts wait for decodes, whose length is bounded by their
    caps. O(1) a step.
    """

    name = "decode-first"
    Options = Options

    def setup(self) -> None:
        self._is_open = True
        self._has_admitted = False
        self._batch = 0

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        super().on_admit(request, hit, need)
        self._has_admitted = True

    def caps(self, view: StepView) -> Caps | None:
        if self._is_open and not self._has_admitted:
            self._is_open = False
            self._batch = view.num_running
        if view.num_running <= self.options.fraction * self._batch or self._is_overdue(view.now):
            self._is_open = True
        self._has_admitted = False
        return None if self._is_open else Caps(num_admissions=0)

    def _is_overdue(self, now: float) -> bool:
        earliest, most = self.earliest_arrival, self.options.max_wait
        return earliest is not None and most is not None and now - earliest >= most
