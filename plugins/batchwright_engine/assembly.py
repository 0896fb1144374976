"""Build an engine from a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from batchwright.assembly import Assembly
from batchwright.component_factory import naming
from batchwright.default_plugins import AUTO
from batchwright.protocols import AttentionBackend, Executor, Feature, ModelInfo, ModelSettings
from batchwright_engine.engine import Engine
from batchwright_engine.runtimes import check_runtime
from batchwright_engine.sections import ExecutorSection


class EngineAssembly(Assembly):
    """Make an engine: the scheduler, the executor and its model.

    Args: see ``Assembly``.
    """

    def engine(self) -> Engine:
        """Load the model and build the scheduler for it.

        Raises:
            ConfigError: No model is named, or the options do not suit it.
            ModelError: The model cannot be loaded or served.
            PluginError: A component cannot be built.
        """
        config = self.config
        if config.model.path is None:
            raise config.error("model.path", "a run needs a model")
        self.check_runtime("engine")
        executor = self.make(config.once("executor"))
        settings = self.model_settings(config.model.path, self._attention())
        return self.engine_around(executor, settings)

    def check_runtime(self, runtime: str, but: Sequence[str] = ()) -> None:
        """Refuse what a runtime cannot do justice; kinds in ``but`` are none of its own."""
        chosen = (
            u for u in self.config.uses() if u.option and u.name != AUTO and u.kind not in but
        )
        found = [self.plugins.find(use.kind, use.name) for use in chosen]
        check_runtime(runtime, found, self.config.plugins.accept_degraded)

    def engine_around(self, executor: Executor, settings: ModelSettings, **given: Any) -> Engine:
        """Load the model and build the scheduler for it."""
        config = self.config
        with naming(executor, Executor.load, OSError):
            model = executor.load(settings)
        scheduler = self.scheduler(model, output_oracle=executor.output_oracle, **given)
        with naming(executor, Executor.allocate_kv):
            executor.allocate_kv(scheduler.sizes.num_blocks, scheduler.sizes.block_size)
        for feature in scheduler.components.features:
            with naming(feature, Feature.worker_side):
                executor.install(feature.name, feature.worker_side())
        max_restarts = config.section(ExecutorSection).max_restarts
        return Engine(scheduler, executor, model, max_restarts=max_restarts)

    def inspect(self) -> ModelInfo | None:
        """Ask the executor about its model without loading it; None if it does not know.

        Raises:
            ModelError: The model could not be served.
            PluginError: A component cannot be built.
        """
        path = self.config.model.path
        if path is None:
            return None
        executor: Executor = self.make(self.config.once("executor"))
        settings = self.model_settings(path, self._attention())
        with naming(executor, Executor.inspect):
            return executor.inspect(settings)

    def model_settings(self, path: str, attention: Sequence[AttentionBackend]) -> ModelSettings:
        return ModelSettings(
            path=self._model_path(path),
            dtype=self.config.model.dtype,
            max_model_len=self.config.model.max_model_len,
            seed=self.config.scheduler.seed,
            attention=attention,
            block_size=self.config.kv.block_size,
        )

    def _attention(self) -> Sequence[AttentionBackend]:
        """The backend that is named; else all that take part in the choice, best first."""
        chosen = self.config.once("attention")
        if chosen.name != AUTO:
            return (self.make(chosen),)
        offered = self.plugins.registrations("attention")
        ranks = [(-rank, r.name) for r in offered if (rank := r.cls.preference) is not None]
        names = [name for _, name in sorted(ranks)]
        return tuple(self.make(self.config.named("attention", n)) for n in names)

    def _model_path(self, path: str) -> str:
        folder = self.config.resolve(path)
        return str(folder) if folder.exists() else path
