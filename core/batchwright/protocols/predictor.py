"""Predictors: how long an output will be."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView


class Predictor(Component, Lifecycle):
    """Estimates that other components ask for through ``ctx.predict``.

    It may learn from what happened (``on_finish``). An estimate is kept with the request
    until it is asked for anew.

    Faults: an exception, or an answer that is no finite number >= 0 for each request,
    falls back to the request's cap on output tokens; several in a row end the run with
    PluginError.
    """

    reads_truth: ClassVar[bool] = False
    """Whether it reads true lengths, from ``ctx.components["output_oracle"]``
    (``OutputOracle``): it can be had in simulations alone, and reports say so."""

    @abstractmethod
    def output_tokens(self, requests: Sequence[RequestView]) -> Sequence[float]:
        """Estimate how many tokens each request will have put out at its end.

        Args:
            requests: Live requests; one batch, so that a model can be asked once.

        Returns:
            Tokens in all (those that are out already included), one number a request.

        Cost class: event.
        """

    def summary(self) -> dict[str, object]:
        """How well it did, for tables and JSON; called at the end, or any time."""
        return {}
