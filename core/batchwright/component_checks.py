"""Checks of the components that a configuration names, against what plugins offer."""

from __future__ import annotations

from typing import Any

from batchwright.config import Config
from batchwright.config.structure import Structure
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

    def find(kind: str, name: str, option: str) -> type[Any] | None:
        try:
            return plugins.find(kind, name).cls
        except PluginError as error:
            structure.note(option, error.message)
            return None

    for use in config.uses():
        component = find(use.kind, use.name, use.option or use.path)
        if component is None:
            continue
        options = structure.build(component.Options, use.options, use.path)
        for wanted in component.subcomponents.values():
            if wanted.option and options is not None:
                chosen = getattr(options, wanted.option)
                find(wanted.kind, chosen, f"{use.path}.{wanted.option}")
    config.refuse(structure.problems)
