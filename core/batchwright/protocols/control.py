"""Step controls: caps on a whole step."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView
from batchwright.step_view import StepView


@frozen(kw_only=True)
class Caps:
    """Caps on one step; None leaves a cap unchanged. Controls compose by minimum.

    Args:
        num_tokens: Scheduled tokens in all.
        num_prefill_tokens: Tokens of requests with more than one new token.
        num_decode_tokens: Tokens of running requests with one new token. The cap does not hold
            in a step that has no other scheduled tokens.
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
        """Return the caps of the step that begins; None for none.

        Called once a step in which a request could be scheduled.

        Cost class: step.
        """
        return None

    def on_tokens(self, request: RequestView, payload: Any) -> None:
        """Handle a token timer (``ctx.call_at_tokens``): that many tokens are computed.

        Cost class: event.
        """
