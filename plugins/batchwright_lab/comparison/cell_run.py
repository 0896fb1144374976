"""Run a cell: a simulation of its own, from a configuration to a stored result."""

from __future__ import annotations

import logging
import platform
import traceback
from typing import TYPE_CHECKING, Any, Final

import attrs

from batchwright.clock import VirtualClock
from batchwright.config import Use
from batchwright.exceptions import OUTSIDE, BatchwrightError, InvariantError
from batchwright.plugin_manager import PluginManager
from batchwright.version import VERSION
from batchwright_lab.comparison.cell import file_digest, own_files, short_digest
from batchwright_lab.comparison.code_files import loaded_files
from batchwright_lab.comparison.recorder import RECORDER, Recorder, RecorderPlugin
from batchwright_lab.configuration.defaults import with_component_defaults
from batchwright_lab.configuration.rendering import render_value
from batchwright_lab.sections import SimulationSection, true_estimator
from batchwright_lab.simulation.arriving import Arriving
from batchwright_lab.simulation.assembly import SimulatorAssembly
from batchwright_lab.simulation.caps import Caps
from batchwright_lab.simulation.simulated_run import find_oracles
from batchwright_lab.simulation.simulation import Simulation
from batchwright_lab.workload.chosen_workload import arrivals_of, make_workload, pace_of

if TYPE_CHECKING:
    from batchwright_engine.engine import Engine
    from batchwright_lab.comparison.cell import Cell

__all__ = ["BROKE", "RAISED", "observe_cell", "run_cell"]

RAISED: Final = "raised"
BROKE: Final = "broke an invariant"


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run the simulation of a cell; whatever goes wrong in it is part of what comes of it.

    Returns:
        The result to keep, ready for JSON: equal for equal cells, bit for bit.
    """
    return observe_cell(cell)[0]


def observe_cell(cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the simulation of a cell, as ``run_cell`` does, and watch this one run of it.

    Returns:
        The result of ``run_cell``, and data that another run of an equal cell need not repeat:
        ``modules``, the digests of foreign modules that the cell's name does not know of, by
        path; ``decision_seconds`` of the wall clock for ``decisions`` planned steps.
    """
    logging.getLogger("batchwright").propagate = False  # faults are counted, and reported
    logging.getLogger("batchwright").addHandler(logging.NullHandler())
    plugins = PluginManager.discover(
        cell.config.plugin_paths, cell.config.plugins.disable, extra=[RecorderPlugin()]
    )
    record: dict[str, Any] = {
        **cell.coordinates(),
        "limit": cell.limit,
        "checked": cell.checked,
        "toml": cell.toml(plugins),
        "versions": _versions(cell, plugins),
        "policy_code": _policy_code(cell, plugins),
        "step_times": _step_times(cell, plugins),
        "fault": None,
    }
    seen: dict[str, Any] = {"decision_seconds": 0.0, "decisions": 0}
    try:
        engine, simulation = _prepare(cell, plugins)
    except OUTSIDE:
        raise
    except BaseException as error:
        return {**record, "fault": _fault(error)}, {**seen, "modules": _others(cell, plugins)}
    try:
        simulation.run()
        record["fault"] = _wrong_books(engine, simulation)
        record.update(_outcome(cell, engine, simulation))
    except OUTSIDE:
        raise
    except BaseException as error:
        record["fault"] = _fault(error)
    finally:
        engine.close()
    decisions = engine.decisions
    seen = {"decision_seconds": decisions.seconds, "decisions": decisions.num_steps}
    return record, {**seen, "modules": _others(cell, plugins)}


def _others(cell: Cell, plugins: PluginManager) -> dict[str, str]:
    """Foreign modules that are loaded, though no import statement of the cell's code says so."""
    others = loaded_files().difference(own_files(), cell.code(plugins))
    return {str(path): file_digest(path) for path in sorted(others)}


def _policy_code(cell: Cell, plugins: PluginManager) -> dict[str, Any]:
    paths = cell.policy_code(plugins)
    return {"digest": short_digest(paths), "files": [path.name for path in paths]}


def _prepare(cell: Cell, plugins: PluginManager) -> tuple[Engine, Simulation]:
    assembly = SimulatorAssembly(_watched(cell), plugins=plugins, clock=VirtualClock())
    workload = make_workload(assembly)
    arriving = Arriving(arrivals_of(workload), pace=pace_of(workload, cell.rate), limit=cell.limit)
    section = assembly.config.section(SimulationSection)
    caps = Caps(section.max_tokens, workload, workload.ctx.stream("caps"))
    engine = assembly.simulator()
    refused = _recorder(engine).refused
    return engine, Simulation(engine, workload, arriving, caps, section, refused)


def _watched(cell: Cell) -> Any:
    names = ("invariants", RECORDER) if cell.checked else (RECORDER,)
    observers = tuple(Use("observer", name, f"observer.{name}") for name in names)
    return attrs.evolve(cell.config, observer=observers)


def _recorder(engine: Engine) -> Recorder:
    observers = engine.scheduler.components.observers
    (found,) = (observer for observer in observers if isinstance(observer, Recorder))
    return found


def _outcome(cell: Cell, engine: Engine, simulation: Simulation) -> dict[str, Any]:
    scheduler, recorder = engine.scheduler, _recorder(engine)
    recorder.conclude()
    counts = recorder.ctx.counts
    return {
        "components": _names(cell, engine),
        "oracles": find_oracles(cell.config, engine),
        "strikes": dict(scheduler.fault_counts),
        "num_component_faults": scheduler.num_component_faults,
        "closed_loop": simulation.is_closed_loop,
        "stopped_by": simulation.stopped_by,
        "end_time": scheduler.clock.now(),
        "usable_blocks": scheduler.view.num_usable_blocks,
        "most_used_blocks": counts.most_used_blocks,
        "scheduled_tokens": counts.scheduled_tokens,
        "steps": counts.steps,
        "requests": recorder.columns,
        "series": recorder.series.as_dict(),
    }


def _names(cell: Cell, engine: Engine) -> dict[str, str]:
    chosen = ("policy", "victim", "preemption", "predictor", "estimator")
    scheduler = engine.scheduler
    names = {kind: getattr(scheduler.components, kind).name for kind in chosen}
    names["scheduler"] = scheduler.name
    workload = cell.config.section(SimulationSection).workload
    return {**names, "executor": engine.executor.name, "workload": workload}


def _wrong_books(engine: Engine, simulation: Simulation) -> dict[str, str] | None:
    """Return the inconsistencies of the scheduler's records at the end."""
    view = engine.scheduler.view
    wrong = [f"E5: {message}" for message in view.audit()]
    held = view.num_usable_blocks - view.num_free_blocks
    if held and not simulation.stopped_by:
        wrong.append(f"E1: {held} blocks are held, and no request is left")
    return {"kind": BROKE, "message": "; ".join(wrong)} if wrong else None


def _fault(error: BaseException) -> dict[str, str]:
    if isinstance(error, InvariantError):
        return {"kind": BROKE, "message": str(error)}
    if isinstance(error, BatchwrightError):
        return {"kind": RAISED, "message": str(error)}
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}: {frame.name}()"
    return {"kind": RAISED, "message": f"{where} raised {type(error).__name__}: {error}"}


def _step_times(cell: Cell, plugins: PluginManager) -> str:
    """The estimator of the true step times, the device that it speaks of, what was set."""
    truth = true_estimator(with_component_defaults(cell.config, plugins))
    profile = truth.options.get("profile")
    given = {
        name: v for name, v in true_estimator(cell.config).options.items() if name != "profile"
    }
    words = [str(profile)] if profile else []
    words += [f"{name} = {render_value(value)}" for name, value in given.items()]
    return f"{truth.name} ({', '.join(words)})" if words else truth.name


def _versions(cell: Cell, plugins: PluginManager) -> dict[str, str]:
    """Batchwright, Python, and the distributions of what is chosen beside."""
    found = {"batchwright": VERSION, "python": platform.python_version()}
    for use in cell.config.uses():
        offer = plugins.find(use.kind, use.name)
        if offer.distribution:
            found[offer.distribution] = offer.version
    return found
