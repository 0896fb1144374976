"""The mean output of earlier requests of the same class."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Predictor
from batchwright_plugins.predictor.score import Score

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["ClassAverage"]


@frozen
class Options:
    """Options of averages by class."""

    by: Literal["prompt", "client", "group", "slo_class"] = option(
        "prompt", "Attribute that makes a class; prompt: lengths between two powers of two."
    )
    memory: float = option(
        100.0, "Number of past requests in the average, weighted exponentially.", ge=1
    )


class ClassAverage(Predictor):
    """The mean output of requests of the same class that have ended by themselves.

    It learns during the run. A class without ended requests has the average of all. Before any
    request has ended, a request's cap is the estimate. An estimate is never below the output so
    far.
    """

    name = "class-average"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._means: dict[Hashable, tuple[float, float]] = {}
        self._score = Score(ctx.stream("score"))

    def output_tokens(self, requests: Sequence[RequestView]) -> Sequence[float]:
        return [self._estimate(request) for request in requests]

    def on_finish(self, request: RequestView) -> None:
        assert request.finish is not None
        if request.finish.reason not in ("stop", "length"):
            return
        self._score.add(self._estimate(request, known=False), request.num_output_tokens)
        for key in (self._class(request), _ALL):
            mean, weight = self._means.get(key, (0.0, 0.0))
            weight = min(weight + 1, self.options.memory)
            self._means[key] = mean + (request.num_output_tokens - mean) / weight, weight

    def summary(self) -> dict[str, object]:
        return self._score.summary()

    def _estimate(self, request: RequestView, *, known: bool = True) -> float:
        found = self._means.get(self._class(request)) or self._means.get(_ALL)
        estimate = found[0] if found else float(request.max_tokens)
        return max(estimate, request.num_output_tokens + 1) if known else estimate

    def _class(self, request: RequestView) -> Hashable:
        by = self.options.by
        return request.num_prompt_tokens.bit_length() if by == "prompt" else getattr(request, by)


_ALL = ("all",)
