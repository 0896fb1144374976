"""Marks: positions at which a component wants to be called."""

from __future__ import annotations

import heapq
from operator import index
from typing import Any

from batchwright.protocols import Component
from batchwright.request import Request
from batchwright.request_view import RequestView
from batchwright.scheduler.steady import SteadyDecodes


class Marks:
    """Marks of all requests; each request keeps its own, nearest first.

    Attributes:
        reached: Requests that may have passed a mark, for ``due`` to look at.
    """

    def __init__(self, requests: dict[str, Request], steady: SteadyDecodes) -> None:
        self._requests = requests
        self._steady = steady
        self._count = 0
        self.reached: dict[str, Request] = {}

    def set(
        self, view: RequestView, num_computed_tokens: int, component: Component, payload: Any
    ) -> None:
        """Set a mark; it lapses if the request has ended.

        Raises:
            TypeError: The position is no integer.
        """
        num_computed_tokens = index(num_computed_tokens)  # here, not where it comes due
        request = self._requests.get(view.request_id)
        if request is None or request.view is not view:
            return
        heapq.heappush(request.marks, (num_computed_tokens, self._count, component, payload))
        self._count += 1
        if request.num_computed_tokens >= num_computed_tokens:
            self.reached[request.request_id] = request
        elif request in self._steady:
            self._steady.appoint_mark(request, num_computed_tokens)

    def reach(self, request: Request) -> None:
        """Note a request that may have passed its nearest mark."""
        if request.marks and request.num_computed_tokens >= request.marks[0][0]:
            self.reached[request.request_id] = request

    def due(self) -> list[tuple[Component, RequestView, Any]]:
        """Take out every mark that has been reached, in order of request and position."""
        due = []
        reached, self.reached = self.reached, {}
        for request in reached.values():
            if request.status.is_finished:
                continue
            while request.marks and request.marks[0][0] <= request.num_computed_tokens:
                _, _, component, payload = heapq.heappop(request.marks)
                due.append((component, request.view, payload))
            if request.marks and request in self._steady:
                self._steady.appoint_mark(request, request.marks[0][0])
        return due
