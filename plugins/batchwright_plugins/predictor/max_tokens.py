"""The cap as the estimate."""

from __future__ import annotations

from collections.abc import Sequence

from batchwright.protocols import Predictor
from batchwright.request_view import RequestView

__all__ = ["MaxTokens"]


class MaxTokens(Predictor):
    """The cap of each request: never too low, often far too high."""

    name = "max-tokens"

    def output_tokens(self, requests: Sequence[RequestView]) -> Sequence[float]:
        return [request.max_tokens for request in requests]
