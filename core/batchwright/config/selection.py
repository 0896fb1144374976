"""Checks the components that a configuration names against those that are offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.config.config import Config
from batchwright.config.structure import Problem, raise_problems, structure
from batchwright.exceptions import PluginError

if TYPE_CHECKING:
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
    problems: list[Problem] = []
    for use in config.uses():
        try:
            component = plugins.find(use.kind, use.name).cls
        except PluginError as error:
            problems.append(Problem(use.option or use.path, error.message))
            continue
        options = structure(component.Options, use.options, use.path)
        if isinstance(options, list):
            problems += options
    raise_problems(problems, config.source)
