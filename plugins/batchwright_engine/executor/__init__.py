"""Executors that ship with the engine."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_executor() -> list[Offer]:
    return [Offer("torch", "batchwright_engine.executor.torch_executor:TorchExecutor")]
