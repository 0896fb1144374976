"""Admission gates: whether a request may enter."""

from __future__ import annotations

from typing import Any

from batchwright.protocols.component import Component, Lifecycle
from batchwright.protocols.kv import Need, PrefixHit
from batchwright.request_view import RequestView
from batchwright.step_view import StepView
from batchwright.verdicts import ADMIT, Verdict


class Gate(Component, Lifecycle):
    """Whether a request may enter, in up to four phases; define those you need.

    Gates compose: they are asked in the order of the TOML file, and the first answer
    other than ADMIT counts. A gate is asked about running requests never. Where a request
    may displace running ones, ``view`` shows them as if they waited already, and their
    blocks as free.

    Allowed answers, and what each does: see ``batchwright.verdicts``.

    Faults: an exception, or an answer that is no Verdict, ends the request that was
    asked about with FINISHED_ERROR; in ``open`` the step goes on as if it were open.
    """

    def pre_enqueue(self, request: RequestView) -> Verdict:
        """Judge a request when it arrives.

        ADMIT, Reject (add_request raises RequestRefusedError) or Park; a Skip or Stop
        here is a fault.

        Cost class: event.
        """
        return ADMIT

    def open(self, view: StepView) -> bool:
        """Whether anybody may be admitted in this step.

        Called once a step in which something waits and could be admitted.

        Cost class: step.
        """
        return True

    def pre_filter(self, request: RequestView, view: StepView) -> Verdict:
        """Judge the next request before its prefix is looked up. Keep it cheap.

        Cost class: candidate.
        """
        return ADMIT

    def filter(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
        """Judge the next request when it is known what it needs.

        Args:
            request: The candidate.
            need: Blocks for its grant and for all of its known tokens.
            hit: What the prefix cache holds of it.
            view: The step so far.

        Cost class: candidate.
        """
        return ADMIT

    def on_timer(self, payload: Any) -> None:
        """A time asked for with ``ctx.call_at`` has come.

        Cost class: event.
        """
