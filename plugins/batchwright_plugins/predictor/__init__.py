"""Predictors of output lengths."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Predictor
from batchwright_plugins.predictor.class_average import ClassAverage
from batchwright_plugins.predictor.max_tokens import MaxTokens
from batchwright_plugins.predictor.oracle import Noisy, Oracle


@hookimpl
def batchwright_register_predictor() -> list[type[Predictor]]:
    return [ClassAverage, MaxTokens, Noisy, Oracle]
