"""Predictors: the expected length of outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView


class Predictor(Component, Lifecycle):
    """Estimates of output lengths, for components that call ``ctx.predict``.

    It may learn from ended requests (``on_finish``). An estimate is kept with the request until
    it is asked for anew.

    Faults: an exception, or an answer that is no finite number >= 0 for each request,
    falls back to the request's cap on output tokens; several in a row end the run with
    PluginError.
    """

    reads_truth: ClassVar[bool] = False
    """True if it reads true lengths, from ``ctx.components["output_oracle"]``
    (``OutputOracle``). Such a predictor works in simulations only, and reports name it."""

    @abstractmethod
    def output_tokens(self, requests: Sequence[RequestView]) -> Sequence[float]:
        """Estimate the number of output tokens of each request at its end.

        Args:
            requests: Live requests; one batch, so that a model can be asked once.

        Returns:
            Output tokens in all, those so far included; one number a request.

        Cost class: event.
        """

    def summary(self) -> dict[str, object]:
        """Return figures of its accuracy, for tables and JSON; called at the end, or any time."""
        return {}
