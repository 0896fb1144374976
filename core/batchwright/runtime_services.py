"""The services that components get from the engine that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from batchwright.compat import Compat
    from batchwright.counts import Counts
    from batchwright.protocols.component import Component
    from batchwright.protocols.estimator import Estimator
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView
    from batchwright.usage import UsageByAccount


class RuntimeServices(Protocol):
    """The part of an engine that the context of a component uses.

    An engine that runs components implements it over objects of its own, once, and hands
    it to ``Context.bind``. ``Context`` has the documentation of each service.
    """

    @property
    def view(self) -> StepView:
        """Counts of the scheduler, live."""

    @property
    def counts(self) -> Counts:
        """Running totals over all steps."""

    @property
    def compat(self) -> Compat:
        """Differences of behaviour that reproduce another engine."""

    @property
    def usage(self) -> UsageByAccount:
        """Service that each account received."""

    @property
    def estimator(self) -> Estimator:
        """The estimator of step times that components may ask."""

    estimator_was_asked: bool
    """True once a component has asked for the estimator; contexts set it."""

    def prefix_hit(self, request: RequestView) -> int:
        """Return the tokens of a waiting request that are cached now."""

    def predict(self, requests: Sequence[RequestView], *, anew: bool) -> list[float]:
        """Return estimates of the output tokens of requests, in all."""

    def group_data(self, name: str, slot: int) -> dict[str, Any]:
        """Return the dict of the component in a slot for a group of requests."""

    def call_at_tokens(
        self, request: RequestView, num_computed_tokens: int, component: Component, payload: Any
    ) -> None:
        """Have ``component.on_tokens(request, payload)`` called once they are computed."""

    def call_at(self, time: float, component: Component, payload: Any) -> None:
        """Have ``component.on_timer(payload)`` called at the first step not before a time."""

    def end(self, request: RequestView, reason: str) -> None:
        """End a live request with FINISHED_ERROR."""

    def signal(self, key: str) -> None:
        """Bring back the requests that are deferred until a key or wait for it."""
