"""Executors that ship with the engine."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_executor() -> list[LazyComponent]:
    return [LazyComponent("torch", "batchwright_engine.executor.torch_executor:TorchExecutor")]
