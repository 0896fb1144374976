"""Predictors of output lengths."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_predictor() -> list[LazyComponent]:
    return [
        LazyComponent("class-average", "batchwright_plugins.predictor.class_average:ClassAverage"),
        LazyComponent("max-tokens", "batchwright_plugins.predictor.max_tokens:MaxTokens"),
        LazyComponent("noisy", "batchwright_lab.predictor.oracle:Noisy"),
        LazyComponent("oracle", "batchwright_lab.predictor.oracle:Oracle"),
    ]
