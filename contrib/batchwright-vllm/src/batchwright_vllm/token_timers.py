"""Timers at numbers of computed tokens, of requests of vLLM."""

from __future__ import annotations

import heapq
from operator import index
from typing import Any

from batchwright.protocols import Component
from batchwright.request_view import RequestView
from batchwright_vllm.served_request import VllmRequest

__all__ = ["TokenTimers"]


class TokenTimers:
    """Numbers of computed tokens at which a component wants to be called.

    Only requests that have timers are looked at, once a step.

    Args:
        served: The live requests by id.
    """

    def __init__(self, served: dict[str, VllmRequest]) -> None:
        self._served = served
        self._watched: dict[str, VllmRequest] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._watched)

    def set(
        self, view: RequestView, num_computed_tokens: int, component: Component, payload: Any
    ) -> None:
        """Set a timer; it lapses if the request has ended.

        Raises:
            TypeError: The number is no integer.
        """
        num_computed_tokens = index(num_computed_tokens)
        served = self._served.get(view.request_id)
        if served is None or served.view is not view:
            return
        heapq.heappush(served.timers, (num_computed_tokens, self._count, component, payload))
        self._count += 1
        self._watched[served.request_id] = served

    def take_due(self) -> list[tuple[Component, RequestView, Any]]:
        """Take out every timer that has been reached."""
        due = []
        for served in list(self._watched.values()):
            timers = served.timers
            while timers and timers[0][0] <= served.num_computed_tokens:
                _, _, component, payload = heapq.heappop(timers)
                due.append((component, served.view, payload))
            if not timers:
                self.forget(served)
        return due

    def forget(self, served: VllmRequest) -> None:
        """Drop a request that has no timers any more, or has ended."""
        self._watched.pop(served.request_id, None)
