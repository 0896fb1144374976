"""Simulations in this process, of arrivals that a test spells out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from batchwright import VirtualClock
from batchwright.config import Config
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Arrival, Workload
from batchwright.testing import make_plugin
from batchwright_lab.sections import SimulationSection
from batchwright_lab.simulation.arriving import Arriving
from batchwright_lab.simulation.assembly import SimulatorAssembly
from batchwright_lab.simulation.caps import Caps
from batchwright_lab.simulation.simulation import Simulation

ONE_SECOND = {"base": 1.0, "per_token": 0.0, "per_context_token": 0.0, "per_attention": 0.0}
"""Coefficients of an estimator for which every step takes a second."""


class Listed(Workload):
    """Arrivals from a list."""

    name = "listed"
    given: Sequence[Arrival] = ()

    def arrivals(self):
        return iter(self.given)

    @property
    def max_output_tokens(self):
        return max((a.num_output_tokens for a in self.given), default=1)


@frozen
class Ran:
    """A simulation that is over."""

    simulation: Simulation
    folder: Path

    @property
    def scheduler(self) -> Any:
        return self.simulation.engine.scheduler

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


Simulate = Callable[..., Ran]


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    """Simulate arrivals; the table of requests is written, and whatever the config says."""
    count = iter(range(1000))

    def run(
        arrivals: Iterable[Arrival],
        config: dict[str, Any] | None = None,
        *,
        plugins: Sequence[object] = (),
        close: bool = True,
        **simulation: Any,
    ) -> Ran:
        folder = tmp_path / f"run-{next(count)}"
        folder.mkdir()
        workload = type("Given", (Listed,), {"given": list(arrivals)})
        table = {
            "estimator": {"linear": ONE_SECOND},
            **(config or {}),
            "simulation": {"workload": "listed", **simulation},
        }
        table["observer"] = [*table.get("observer", ()), {"use": "request-table"}]
        parsed = Config.from_dict(table, base_path=folder)
        offered = PluginManager.discover(extra=[make_plugin(workload=[workload]), *plugins])
        assembly = SimulatorAssembly(parsed, plugins=offered, clock=VirtualClock())
        engine = assembly.simulator()
        made = assembly.make(parsed.once("workload"))
        caps = Caps(parsed.section(SimulationSection).max_tokens, made, random.Random(0))
        observers = {o.name: o for o in engine.scheduler.components.observers}
        simulation_ = Simulation(
            engine,
            made,
            Arriving(made.arrivals()),
            caps,
            parsed.section(SimulationSection),
            observers["request-table"].refused,
        )
        simulation_.run()
        if close:
            engine.close()
        return Ran(simulation_, folder)

    return run
