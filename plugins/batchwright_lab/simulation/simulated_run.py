"""One call of ``batchwright simulate``: from options to files and a table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from batchwright.clock import VirtualClock
from batchwright.config import load_config
from batchwright.exceptions import ConfigError
from batchwright.plugin_manager import PluginManager
from batchwright_engine.answering.instruments import ADDED, PROGRESS, instrumented
from batchwright_engine.answering.report import (
    choices,
    decision_row,
    ends_row,
    faults_rows,
    listed,
    observer_rows,
    print_figures,
    served_rows,
    shadows_of,
    sizes,
    stats_of,
)
from batchwright_engine.output_file import Staged, write_text
from batchwright_engine.signals import catching
from batchwright_lab.sections import SimulationSection, true_estimator
from batchwright_lab.simulation.arriving import Arriving
from batchwright_lab.simulation.assembly import SimulatorAssembly
from batchwright_lab.simulation.caps import Caps
from batchwright_lab.simulation.simulation import Simulation
from batchwright_lab.workload.chosen_workload import (
    arrivals_of,
    choose_workload,
    make_workload,
    pace_of,
)
from batchwright_plugins.files import files_taken

if TYPE_CHECKING:
    from rich.console import Console

    from batchwright.assembly import Assembly
    from batchwright.config import Config
    from batchwright.protocols import Workload
    from batchwright_engine.engine import Engine

__all__ = ["SimulatedRun", "find_oracles"]

TABLE: Final = "request-table"
STEPS: Final = "decision-log"


class SimulatedRun:
    """Everything that one simulation needs, and what it leaves.

    Args:
        config: The TOML file.
        overrides: ``key.path=value`` each.
        workload: ``NAME`` or ``NAME:FILE``; None: ``simulation.workload``.
        output: Folder for files.
        steps: True if every decision is written down.
        rate: Mean arrivals a second.
        scale_rate: Factor on the rate of arrivals.
        limit: Requests that are taken.
        options: Options of the command that are options of the configuration, too.
    """

    def __init__(
        self,
        config: Path | None,
        overrides: Sequence[str],
        *,
        workload: str | None = None,
        output: Path | None = None,
        steps: bool = False,
        rate: float | None = None,
        scale_rate: float | None = None,
        limit: int | None = None,
        **options: Any,
    ) -> None:
        if rate is not None and scale_rate is not None:
            raise ConfigError("--rate and --scale-rate say the same; give one of them")
        loaded = load_config(config, [*overrides, *_as_overrides(options)])
        self._plugins = PluginManager.discover(loaded.plugin_paths, loaded.plugins.disable)
        self.config = choose_workload(loaded, workload, self._plugins)
        names = {TABLE: "requests.csv"} | ({STEPS: "steps.jsonl"} if steps else {})
        self._observed = {} if output is None else {k: output / name for k, name in names.items()}
        self._summary = None if output is None else output / "summary.json"
        self._staged = Staged(*self._observed.values(), *filter(None, [self._summary]))
        self._rate = rate
        self._scale_rate = scale_rate
        self._limit = limit

    def run(self) -> Simulation:
        """Run it, say what comes of it, write the files.

        Raises:
            ConfigError: Something in the configuration or the workload is wrong.
            PluginError: A component cannot be had, or failed too often.
        """
        from rich.console import Console

        notices = Console(stderr=True, highlight=False)
        begin = time.perf_counter()
        with self._staged.held(files_taken(self.config), _teller(notices)):
            simulation = self._simulate(notices)
            self._report(simulation, time.perf_counter() - begin, notices)
            self._check_files(simulation)
            self._staged.is_whole = simulation.signal is None
        return simulation

    def _check_files(self, simulation: Simulation) -> None:
        """Refuse to call a run done whose files are not whole.

        Raises:
            ClickException: Something that writes one has failed.
        """
        counts = simulation.engine.scheduler.fault_counts
        for name, path in self._observed.items():
            if any(where.startswith(f"observer {name!r} ") for where in counts):
                part = self._staged.part(path)
                raise click.ClickException(f"{part} is not whole: {name!r} failed on the way")

    def simulate(self, notices: Console | None = None) -> Simulation:
        """Run it, and write the table of requests.

        Args:
            notices: Output for messages about the run and its progress; None: none.

        Raises:
            ConfigError: Something in the configuration or the workload is wrong.
            PluginError: A component cannot be had, or failed too often.
        """
        with self._staged.held(files_taken(self.config), _teller(notices)):
            simulation = self._simulate(notices)
            self._staged.is_whole = simulation.signal is None
        return simulation

    def _simulate(self, notices: Console | None) -> Simulation:
        assembly = instrumented(
            SimulatorAssembly,
            self.config,
            is_terminal=notices is not None and notices.is_terminal,
            files={
                name: str(self._staged.part(path).resolve())
                for name, path in self._observed.items()
            },
            clock=VirtualClock(),
            plugins=self._plugins,
        )
        engine = assembly.simulator()
        try:
            simulation = self._prepare(assembly, engine)
            if notices is not None:
                for line in _start_lines(self.config, engine):
                    notices.print(line, markup=False, soft_wrap=True)
            with catching(simulation.stop):
                simulation.run()
        finally:
            engine.close()
        return simulation

    def _prepare(self, assembly: Assembly, engine: Engine) -> Simulation:
        section = self.config.section(SimulationSection)
        workload = make_workload(assembly)
        arriving = Arriving(arrivals_of(workload), pace=self._pace(workload), limit=self._limit)
        chance = workload.ctx.stream("caps")
        caps = Caps(section.max_tokens, workload, chance)
        observers = {o.name: o for o in engine.scheduler.components.observers}
        table: Any = observers.get(TABLE)
        on_refused = table.refused if table is not None else None
        simulation = Simulation(engine, workload, arriving, caps, section, on_refused)
        if table is not None:
            table.stamp(" ".join(find_oracles(self.config, engine)))
        progress: Any = observers.get(PROGRESS)
        if progress is not None and self._limit is not None:
            progress.expect(self._limit)
        return simulation

    def _pace(self, workload: Workload) -> float:
        """Return the factor on the rate of arrivals."""
        if self._rate is None:
            return self._scale_rate or 1.0
        return pace_of(workload, self._rate)

    def _report(self, simulation: Simulation, seconds: float, notices: Console) -> None:
        from rich.console import Console

        engine = simulation.engine
        oracles = find_oracles(self.config, engine)
        said = listed(engine.scheduler.summaries(), self.config, (*ADDED, *self._observed))
        summary = _summary(self.config, simulation, oracles, said)
        if self._summary is not None:
            text = json.dumps(summary, indent=2, ensure_ascii=False)
            write_text(self._staged.part(self._summary), f"{text}\n")
        print_figures(Console(highlight=False), _rows(simulation, oracles, said))
        if simulation.stopped_by:
            notices.print(f"Stopped: {simulation.stopped_by}.", markup=False, soft_wrap=True)
        num_ended = simulation.reasons.total()
        notices.print(
            f"simulated in {seconds:.2f} s: {num_ended / seconds:,.0f} requests/s, "
            f"{engine.scheduler.clock.now() / seconds:,.0f} times as fast as real",
            markup=False,
            soft_wrap=True,
        )


def find_oracles(config: Config, engine: Engine) -> list[str]:
    """Return the components with more knowledge in this simulation than in service."""
    section, components = config.section(SimulationSection), engine.scheduler.components
    found = []
    if components.predictor.reads_truth:
        found.append(f"predictor:{components.predictor.name}")
    truth, known = true_estimator(config), config.once("estimator")
    same = (truth.name, truth.options) == (known.name, known.options)
    if section.oracle_estimator or (same and engine.scheduler.estimator_was_asked):
        found.append(f"estimator:{truth.name}")
    if section.max_tokens == "exact":
        found.append("max_tokens:exact")
    return found


def _teller(notices: Console | None) -> Callable[[str], object]:
    """Return a function that prints a line as it is, or does nothing."""
    if notices is None:
        return lambda _: None
    return partial(notices.print, markup=False, soft_wrap=True)


def _as_overrides(options: Mapping[str, Any]) -> Iterator[str]:
    """Options of the command as overrides of the configuration."""
    section = {"seed": "scheduler"}
    for key, value in options.items():
        if value is not None:
            yield f"{section.get(key, 'simulation')}.{key}={value}"


def _start_lines(config: Config, engine: Engine) -> Iterator[str]:
    workload = config.section(SimulationSection).workload
    yield f"{engine.model.name}; workload {workload}; {sizes(engine)}"
    yield choices(engine)


def _rows(
    simulation: Simulation, oracles: list[str], said: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    yield ends_row(simulation.reasons, simulation.arriving.num_taken)
    if simulation.num_failed and not simulation.has_served_none:  # else it is an error of the run
        yield "first failure", simulation.first_failure
    yield "time", f"{simulation.engine.scheduler.clock.now():,.1f} s simulated"
    yield from decision_row(simulation.engine)
    yield from faults_rows(simulation.engine)
    yield from served_rows(simulation.engine)
    yield from observer_rows(said)
    if oracles:
        yield "knows too much", ", ".join(oracles)


def _summary(
    config: Config, simulation: Simulation, oracles: list[str], said: Mapping[str, Any]
) -> dict[str, Any]:
    scheduler = simulation.engine.scheduler
    return {
        "workload": config.section(SimulationSection).workload,
        "estimator": true_estimator(config).name,
        "scheduler": scheduler.name,
        "policy": scheduler.components.policy.name,
        "predictor": scheduler.components.predictor.name,
        "seed": config.scheduler.seed,
        "oracles": oracles,
        "stopped_by": simulation.stopped_by,
        "simulated_s": scheduler.clock.now(),
        "requests_arrived": simulation.arriving.num_taken,
        "requests_refused": simulation.reasons["refused"],
        "first_failure": simulation.first_failure,
        "decision_seconds_mean": simulation.engine.decisions.seconds_mean,
        "num_component_faults": scheduler.num_component_faults,
        **stats_of(simulation.engine),
        **({"shadows": shadows} if (shadows := shadows_of(simulation.engine)) else {}),
        **scheduler.components.predictor.summary(),
        "observers": dict(said),
    }
