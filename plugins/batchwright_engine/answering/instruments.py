"""The observers that a run needs for its report, beside those that the TOML lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from batchwright.config import Use
from batchwright.exceptions import PluginError
from batchwright.plugin_manager import PluginManager

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batchwright.assembly import Assembly
    from batchwright.clock import Clock
    from batchwright.config import Config

__all__ = ["ADDED", "PROGRESS", "SHADOW", "STATS", "instrumented"]

STATS: Final = "stats"
PROGRESS: Final = "progress"
SHADOW: Final = "shadow"
ADDED: Final = (STATS, PROGRESS)
"""Observers that a run adds to those that the TOML lists."""


A = TypeVar("A", bound="Assembly")


def instrumented(
    make: type[A],
    config: Config,
    *,
    is_terminal: bool,
    files: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    plugins: PluginManager | None = None,
) -> A:
    """Prepare the assembly of a configuration, with what a report needs.

    Args:
        make: The kind of assembly.
        config: The configuration; observers that it lists are left as they are.
        is_terminal: True if there is a terminal to show progress on.
        files: Observers that write a file, and which, by name.
        clock: Clock of the run; None: the machine's.
        plugins: Plugins to choose from; None discovers them.

    Raises:
        ConfigError: A component that it names is unknown, or its options are wrong.
        PluginError: A plugin that it loads is broken.
    """
    if plugins is None:
        plugins = PluginManager.discover(config.plugin_paths, config.plugins.disable)
    wanted = (STATS, PROGRESS) if is_terminal else (STATS,)
    listed = [use.name for use in config.observer]
    added = [
        Use("observer", name, f"observer.{name}")
        for name in wanted
        if name not in listed and _is_offered(plugins, name)
    ]
    added += [
        Use("observer", name, f"observer.{name}", options={"path": path})
        for name, path in (files or {}).items()
    ]
    config = attrs.evolve(config, observer=(*config.observer, *added))
    return make(config, plugins=plugins, clock=clock)


def _is_offered(plugins: PluginManager, name: str) -> bool:
    try:
        plugins.find("observer", name)
    except PluginError:
        return False
    return True
