"""Predictors of output lengths."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_predictor() -> list[Offer]:
    return [
        Offer("class-average", "batchwright_plugins.predictor.class_average:ClassAverage"),
        Offer("max-tokens", "batchwright_plugins.predictor.max_tokens:MaxTokens"),
    ]
