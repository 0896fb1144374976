"""Estimates of output lengths, asked for once and kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from batchwright.protocols import Predictor
from batchwright.request import Request
from batchwright.request_view import RequestView
from batchwright.scheduler.faults import Faults


class Predictions:
    """Asks the predictor, and keeps what it answers with each request."""

    def __init__(self, predictor: Predictor, requests: dict[str, Request], faults: Faults) -> None:
        self._predictor = predictor
        self._requests = requests
        self._faults = faults

    def of(self, views: Sequence[RequestView], *, anew: bool) -> list[float]:
        """Estimates for live requests (tokens in all).

        Raises:
            KeyError: A request has ended.
        """
        requests = [self._requests[view.request_id] for view in views]
        unknown = [r for r in requests if anew or r.predicted_tokens is None]
        if unknown:
            answer = self._faults.ask(
                self._predictor,
                "output_tokens",
                ([request.view for request in unknown],),
                check=lambda answer: _are_estimates(answer, len(unknown)),
                call=lambda views: list(self._predictor.output_tokens(views)),
                expected=f"{len(unknown)} finite numbers >= 0",
            )
            if answer is None:
                answer = [request.max_tokens for request in unknown]
            for request, tokens in zip(unknown, answer, strict=True):
                request.predicted_tokens = float(tokens)
        return [request.predicted_tokens or 0.0 for request in requests]


def _are_estimates(answer: Any, count: int) -> bool:
    return len(answer) == count and all(math.isfinite(n) and n >= 0 for n in answer)
