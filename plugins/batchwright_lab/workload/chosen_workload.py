"""The workload of a command: from ``--workload``, a file, or the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from batchwright.component_factory import naming
from batchwright.default_plugins import AUTO
from batchwright.exceptions import ConfigError
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Workload
from batchwright_lab.sections import SimulationSection

if TYPE_CHECKING:
    from batchwright.assembly import Assembly
    from batchwright.config import Config
    from batchwright.protocols import Arrival

__all__ = ["arrivals_of", "choose_workload", "make_workload", "pace_of"]

_HEAD = 4096


def choose_workload(
    config: Config, source: str | None, plugins: PluginManager | None = None
) -> Config:
    """Put what ``--workload`` says into a configuration.

    Args:
        config: The configuration.
        source: ``NAME``, ``NAME:FILE``, or a file whose format is recognized; None: as is.
        plugins: Plugins to choose from; None discovers them.

    Raises:
        ConfigError: No workload is of that name, or none recognizes the file.
    """
    if source is None:
        return config
    if plugins is None:
        plugins = PluginManager.discover(config.plugin_paths, config.plugins.disable)
    name, colon, file = source.partition(":")
    if name not in plugins.names("workload") and Path(source).expanduser().exists():
        offered = {found.name: found.cls for found in plugins.registrations("workload")}
        name, colon, file = _recognize(Path(source).expanduser(), offered), ":", source
    options = {kind: dict(tables) for kind, tables in config.options.items()}
    if colon:
        path = str(Path(file).expanduser().resolve())
        tables = options.setdefault("workload", {})
        tables[name] = {**tables.get(name, {}), "path": path}
    section = attrs.evolve(config.section(SimulationSection), workload=name)
    return attrs.evolve(config, options=options).with_section(section)


def make_workload(assembly: Assembly) -> Workload:
    """Build the workload of a configuration.

    Raises:
        ConfigError: None is chosen, or its options are wrong.
    """
    use = assembly.config.once("workload")
    if use.name == AUTO:
        names = assembly.plugins.names("workload")
        problem = f"no workload is chosen; name one here or with --workload: {', '.join(names)}"
        raise assembly.config.error(use.option, problem)
    workload: Workload = assembly.make(use)
    return workload


def arrivals_of(workload: Workload) -> Iterator[Arrival]:
    """Read what arrives.

    Raises:
        OSError: A file cannot be read.
        PluginError: The workload fails.
    """
    with naming(workload, Workload.arrivals, OSError):
        yield from workload.arrivals()


def pace_of(workload: Workload, rate: float | None) -> float:
    """Return the factor on the rate of a workload, for a given rate.

    Args:
        workload: The workload.
        rate: Mean arrivals (1/s); None: as it says.

    Raises:
        ConfigError: It has no rate.
    """
    if rate is None:
        return 1.0
    if workload.rate is None:
        problem = f"a rate needs a workload that has one; {workload.name!r} has none"
        raise ConfigError(problem, path="simulation.workload")
    return rate / workload.rate


def _recognize(path: Path, offered: dict[str, type[Workload]]) -> str:
    """Name of the workload that reads a file."""
    head = ""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8-sig", errors="replace")
        head = "" if "\0" in head or "\ufffd" in head[:-1] else head
    found = [name for name, cls in offered.items() if cls.recognizes(head)]
    if len(found) != 1:
        problem = f"is recognized by {' and '.join(found) or 'no workload'}; say NAME:FILE"
        raise ConfigError(f"{problem}. Names: {', '.join(offered)}", source=str(path))
    return found[0]
