"""Calls of the predictor; its estimates are asked for once and kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

from attrs import define

from batchwright.callers.guard import Expected, Guard
from batchwright.protocols import Predictor
from batchwright.request import Request
from batchwright.request_view import RequestView


@define(eq=False, slots=False)
class Predictions:
    """Asks the predictor, and keeps its answers with the requests.

    Faults: the request's cap on output tokens is the estimate.
    """

    _predictor: Predictor
    _requests: Mapping[str, Request]
    _guard: Guard

    def of(self, views: Sequence[RequestView], *, anew: bool) -> list[float]:
        """Return estimates for live requests (tokens in all).

        Raises:
            KeyError: A request has ended.
        """
        requests = [self._requests[view.request_id] for view in views]
        unknown = [r for r in requests if anew or r.predicted_tokens is None]
        if unknown:
            for request, tokens in zip(unknown, self._estimates(unknown), strict=True):
                request.predicted_tokens = float(tokens)
        return [request.predicted_tokens or 0.0 for request in requests]

    def _estimates(self, requests: Sequence[Request]) -> Sequence[float]:
        predictor, count = self._predictor, len(requests)

        @wraps(predictor.output_tokens)
        def estimate(views: Sequence[RequestView]) -> list[float]:
            return list(predictor.output_tokens(views))

        expected = Expected(
            lambda answer: _are_estimates(answer, count), f"{count} finite numbers >= 0"
        )
        views = [request.view for request in requests]
        answer = self._guard.ask(predictor, estimate, expected, views)
        return answer if answer is not None else [request.max_tokens for request in requests]


def _are_estimates(answer: Any, count: int) -> bool:
    return len(answer) == count and all(math.isfinite(n) and n >= 0 for n in answer)
