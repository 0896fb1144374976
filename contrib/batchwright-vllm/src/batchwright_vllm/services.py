"""The services of vLLM's scheduler for components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from batchwright.compat import Compat
from batchwright.counts import Counts
from batchwright.protocols import Component, Estimator
from batchwright.request_view import RequestView
from batchwright.runtime_services import RuntimeServices
from batchwright.step_view import StepView
from batchwright.usage import UsageByAccount

if TYPE_CHECKING:
    from batchwright_vllm.hooks import Hooks

__all__ = ["VllmServices"]


class VllmServices(RuntimeServices):
    """The services of vLLM's scheduler.

    Args:
        hooks: The scheduler's hooks.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._compat = Compat()
        self.estimator_was_asked = False

    @property
    def view(self) -> StepView:
        return self._hooks.view

    @property
    def counts(self) -> Counts:
        return self._hooks.counts

    @property
    def compat(self) -> Compat:
        return self._compat

    @property
    def usage(self) -> UsageByAccount:
        return self._hooks.usage

    @property
    def estimator(self) -> Estimator:
        return self._hooks.components.estimator

    def prefix_hit(self, request: RequestView) -> int:
        served = self._hooks.served[request.request_id]
        return int(self._hooks.scheduler.kv_cache_manager.get_computed_blocks(served.request)[1])

    def predict(self, requests: Sequence[RequestView], *, anew: bool) -> list[float]:
        return self._hooks.predictions.of(requests, anew=anew)

    def group_data(self, name: str, slot: int) -> dict[str, Any]:
        return self._hooks.groups.state(name, slot)

    def call_at_tokens(
        self, request: RequestView, num_computed_tokens: int, component: Component, payload: Any
    ) -> None:
        self._hooks.token_timers.set(request, num_computed_tokens, component, payload)

    def call_at(self, time: float, component: Component, payload: Any) -> None:
        self._hooks.clock_timers.set(time, (component, payload))

    def end(self, request: RequestView, reason: str) -> None:
        self._hooks.end(request.request_id, reason)

    def signal(self, key: str) -> None:
        self._hooks.signal(key)
