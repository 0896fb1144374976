"""The prompts that are being computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batchwright.protocols import Control

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["PrefillTracker"]


class PrefillTracker(Control):
    """The running requests whose known tokens are not all computed yet.

    One is among them from its admission to the beginning of the step after the one that
    computes the last of these; so too after a preemption. O(1) an event, nothing a step: a
    token timer a request reports its end.

    Attributes:
        computing: Those requests, in order of admission.
    """

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        self.computing: dict[RequestView, None] = {}

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self.computing[request] = None
        self.ctx.call_at_tokens(
            request, num_computed_tokens=request.num_tokens, payload=request.num_tokens
        )

    def on_tokens(self, request: RequestView, payload: Any) -> None:
        if request.num_computed_tokens >= payload:
            self.computing.pop(request, None)

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self.computing.pop(request, None)

    def on_finish(self, request: RequestView) -> None:
        self.computing.pop(request, None)
