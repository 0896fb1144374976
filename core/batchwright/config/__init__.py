"""The configuration: TOML to attrs, strictly.

``load_config`` reads a file, ``Config.from_dict`` takes the same structure as a dict;
``check_components`` checks it against the plugins, ``check_combinations`` against the
model.
"""

from batchwright.config.combinations import check_combinations
from batchwright.config.config import Config
from batchwright.config.converter import type_name
from batchwright.config.kinds import LIST_KINDS, SECTIONS, SELECTORS, Use
from batchwright.config.loading import apply_override, load_config
from batchwright.config.rendering import render_config, render_value
from batchwright.config.sections import (
    DEFAULT_MAX_MODEL_LEN,
    DEFAULT_NUM_BLOCKS,
    AttentionSection,
    ExecutorSection,
    KVSection,
    ModelSection,
    PluginsSection,
    RunSection,
    SchedulerSection,
)
from batchwright.config.selection import check_components
from batchwright.config.structure import Problem, raise_problems, structure_options

__all__ = [
    "DEFAULT_MAX_MODEL_LEN",
    "DEFAULT_NUM_BLOCKS",
    "LIST_KINDS",
    "SECTIONS",
    "SELECTORS",
    "AttentionSection",
    "Config",
    "ExecutorSection",
    "KVSection",
    "ModelSection",
    "PluginsSection",
    "Problem",
    "RunSection",
    "SchedulerSection",
    "Use",
    "apply_override",
    "check_combinations",
    "check_components",
    "load_config",
    "raise_problems",
    "render_config",
    "render_value",
    "structure_options",
    "type_name",
]
