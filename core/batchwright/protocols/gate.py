"""Admission gates: the admission of waiting requests."""

from __future__ import annotations

from typing import Any

from batchwright.protocols.component import Component, Lifecycle
from batchwright.protocols.kv import Need, PrefixHit
from batchwright.request_view import RequestView
from batchwright.step_view import StepView
from batchwright.verdicts import ADMIT, Verdict


class Gate(Component, Lifecycle):
    """Decide about the admission of requests, in up to four phases; define those you need.

    Gates compose: they are asked in the order of the TOML file, and the first answer other than
    ADMIT counts. A gate is never asked about a running request. If a request may preempt
    running ones, ``view`` shows those as waiting, and their blocks as free.

    Allowed answers and their effects: see ``batchwright.verdicts``.

    Faults: an exception, or an answer that is no Verdict, ends the request that was
    asked about with FINISHED_ERROR; in ``open`` the step goes on as if it were open.
    """

    def pre_enqueue(self, request: RequestView) -> Verdict:
        """Judge a request when it arrives.

        Allowed are ADMIT, Reject (add_request raises RequestRefusedError) and Wait; a Defer or
        Stop here is a fault.

        Cost class: event.
        """
        return ADMIT

    def open(self, view: StepView) -> bool:
        """Return True if requests may be admitted in this step.

        Called once a step in which a request waits and could be admitted.

        Cost class: step.
        """
        return True

    def pre_filter(self, request: RequestView, view: StepView) -> Verdict:
        """Judge the next request before its prefix is looked up. Keep it cheap.

        Cost class: candidate.
        """
        return ADMIT

    def filter(self, request: RequestView, need: Need, hit: PrefixHit, view: StepView) -> Verdict:
        """Judge the next request when its need is known.

        Args:
            request: The candidate.
            need: Blocks for its scheduled tokens, and for all of its known tokens.
            hit: Its tokens and blocks in the prefix cache.
            view: The step so far.

        Cost class: candidate.
        """
        return ADMIT

    def on_timer(self, payload: Any) -> None:
        """Handle a clock timer (``ctx.call_at``): its time has come.

        Cost class: event.
        """
