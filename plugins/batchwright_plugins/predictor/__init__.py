"""Predictors of output lengths."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Predictor
from batchwright_plugins.predictor.max_tokens import MaxTokens


@hookimpl
def batchwright_register_predictor() -> list[type[Predictor]]:
    return [MaxTokens]
