"""Checks the components that a configuration names against those that are offered."""

from __future__ import annotations

from batchwright.config.config import Config
from batchwright.config.structure import Structure, raise_problems
from batchwright.exceptions import PluginError
from batchwright.plugin_manager import PluginManager


def check_components(config: Config, plugins: PluginManager) -> None:
    """Check every component that is selected, and every table of options.

    A table of options for a component that is not selected is checked too, so that
    none can be misspelt and silently ignored.

    Args:
        config: The configuration.
        plugins: What is offered.

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
            structure.build(component.Options, use.options, use.path)
    raise_problems(structure.problems, config.source)
