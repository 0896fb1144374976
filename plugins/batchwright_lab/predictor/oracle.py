"""True output lengths, which are not known outside a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Predictor
from batchwright_plugins.predictor.score import Score

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.protocols import OutputOracle
    from batchwright.request_view import RequestView

__all__ = ["Noisy", "Oracle"]


class Oracle(Predictor):
    """The true output length: a perfect predictor. Simulations only.

    Reports name it, since no service can have it.
    """

    name = "oracle"
    reads_truth = True

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._lengths: OutputOracle = ctx.components["output_oracle"]

    def output_tokens(self, requests: Sequence[RequestView]) -> Sequence[float]:
        return [self.length(request) for request in requests]

    def length(self, request: RequestView) -> float:
        """Tokens that a request will put out: its true length, or its cap."""
        length = self._lengths.output_tokens(request.request_id)
        return float(request.max_tokens if length is None else min(length, request.max_tokens))


@frozen
class Options:
    """Options of noise."""

    sigma: float = option(
        0.5, "Standard deviation of the natural logarithm of estimate over truth.", ge=0
    )


class Noisy(Oracle):
    """The true output length with an error: a predictor of chosen quality. Simulations only.

    The estimate is the truth times a lognormal factor of median 1, drawn once a request.
    Kendall's tau of the resulting order is in the summary.
    """

    name = "noisy"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._score = Score(ctx.stream("score"))

    def length(self, request: RequestView) -> float:
        # By name, not in the order in which requests are asked about: runs stay paired.
        chance = self.ctx.stream(f"noise/{request.request_id}")
        factor = chance.lognormvariate(0.0, self.options.sigma) if self.options.sigma else 1.0
        return max(1.0, super().length(request) * factor)

    def on_finish(self, request: RequestView) -> None:
        self._score.add(self.length(request), super().length(request))

    def summary(self) -> dict[str, object]:
        return {"sigma": self.options.sigma, **self._score.summary()}
