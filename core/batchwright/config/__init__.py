"""The configuration: TOML to attrs, strictly.

``load_config`` reads a file, ``Config.from_dict`` takes the same structure as a dict;
``check_combinations`` checks it against the model, and
``batchwright.component_checks`` against the plugins.
"""

from batchwright.config.checks import check_combinations
from batchwright.config.config import LIST_KINDS, SELECTORS, Config, Use
from batchwright.config.loading import load_config
from batchwright.config.sections import Section, section_types

__all__ = [
    "LIST_KINDS",
    "SELECTORS",
    "Config",
    "Section",
    "Use",
    "check_combinations",
    "load_config",
    "section_types",
]
