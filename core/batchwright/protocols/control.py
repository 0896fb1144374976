"""Step controls: caps on what a whole step may do."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView
from batchwright.step_view import StepView


@frozen(kw_only=True)
class Caps:
    """Caps on one step; None leaves a cap where it is. Controls compose by minimum.

    Args:
        num_tokens: Tokens granted in all.
        num_prefill_tokens: Tokens granted to requests whose debt is over 1.
        num_decode_tokens: Tokens granted to running requests whose debt is 1. It does not
            hold in a step that grants no other request anything.
        num_admissions: Requests admitted.
        num_draft_tokens: Draft tokens a request.
    """

    num_tokens: int | None = None
    num_prefill_tokens: int | None = None
    num_decode_tokens: int | None = None
    num_admissions: int | None = None
    num_draft_tokens: int | None = None


class Control(Component, Lifecycle):
    """Caps for the whole step.

    Faults: an exception or an answer that is no Caps (or has a negative cap) leaves
    that step without a cap of this control; three in a row end the run with
    PluginError.
    """

    def caps(self, view: StepView) -> Caps | None:
        """Caps for the step that begins; None for none.

        Called once a step in which anything could be granted.

        Cost class: step.
        """
        return None

    def on_tokens(self, request: RequestView, payload: Any) -> None:
        """A position asked for with ``ctx.call_at_tokens`` has been computed.

        Cost class: event.
        """
