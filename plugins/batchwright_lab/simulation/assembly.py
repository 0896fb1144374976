"""Build the engine of a simulation from a configuration."""

from __future__ import annotations

from batchwright.clock import MonotonicClock
from batchwright_engine.assembly import EngineAssembly
from batchwright_engine.engine import Engine
from batchwright_lab.sections import SimulationSection, true_estimator


class SimulatorAssembly(EngineAssembly):
    """Make the engine of a simulation.

    Args: see ``Assembly``.
    """

    def simulator(self) -> Engine:
        """Build the engine of a simulation: the same scheduler, a simulated executor.

        Raises:
            ConfigError: The options exclude each other.
            PluginError: A component cannot be built.
        """
        self.check_runtime("simulator", but=("executor", "attention"))
        name = self.config.section(SimulationSection).executor
        use = self.config.named("executor", name, "simulation.executor")
        truth = self.make(true_estimator(self.config))
        executor = self.make(use, estimator=truth)
        is_known = self.config.section(SimulationSection).oracle_estimator
        settings = self.model_settings(self.config.model.path or "", attention=())
        known = truth if is_known else None
        return self.engine_around(executor, settings, estimator=known, stopwatch=MonotonicClock())
