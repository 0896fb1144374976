"""Checks of the components that a configuration names, against what plugins offer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batchwright.config import Config, Structure, raise_problems
from batchwright.exceptions import PluginError
from batchwright.plugin_manager import PluginManager


def check_components(config: Config, plugins: PluginManager) -> None:
    """Check every component that is selected, and every table of options.

    A table of options for a component that is not selected is checked too, so that
    none can be misspelt and silently ignored.

    Args:
        config: The configuration.
        plugins: Plugins to choose from.

    Raises:
        ConfigError: A component is unknown, ambiguous or broken, or its options are
            wrong: all of them.
    """
    structure = Structure()
    for use in config.uses():
        try:
            component = plugins.find(use.kind, use.name).cls
        except PluginError as error:
            structure.note(use.option or use.path, error.message)
        else:
            options = structure.build(component.Options, use.options, use.path)
            for problem in _subcomponent_problems(component, options, use.path, plugins):
                structure.note(*problem)
    raise_problems(structure.problems, config.source)


def _subcomponent_problems(
    component: type[Any], options: Any, path: str, plugins: PluginManager
) -> Iterator[tuple[str, str]]:
    """Yield the problems with the names of subcomponents."""
    for wanted in component.subcomponents.values() if options is not None else ():
        if wanted.option:
            try:
                plugins.find(wanted.kind, getattr(options, wanted.option))
            except PluginError as error:
                yield f"{path}.{wanted.option}", error.message
