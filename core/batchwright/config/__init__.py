"""The configuration: TOML to attrs, strictly.

``load_config`` reads a file, ``Config.from_dict`` takes the same structure as a dict;
``check_components`` checks it against the plugins, ``check_combinations`` against the
model.
"""

from batchwright.config.checks import check_combinations, check_components
from batchwright.config.config import LIST_KINDS, SELECTORS, Config, Use
from batchwright.config.loading import load_config
from batchwright.config.section import Section, section_types
from batchwright.config.structure import Problem, located, raise_problems, structure_options

__all__ = [
    "LIST_KINDS",
    "SELECTORS",
    "Config",
    "Problem",
    "Section",
    "Use",
    "check_combinations",
    "check_components",
    "load_config",
    "located",
    "raise_problems",
    "section_types",
    "structure_options",
]
