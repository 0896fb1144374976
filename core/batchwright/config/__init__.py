"""The configuration: TOML to attrs, strictly.

``load_config`` reads a file, ``Config.from_dict`` takes the same structure as a dict;
``check_components`` checks it against the plugins, ``check_combinations`` against the
model.
"""

from batchwright.config.combinations import check_combinations
from batchwright.config.config import LIST_KINDS, SECTIONS, SELECTORS, Config, Use
from batchwright.config.documentation import OptionDoc, document_options
from batchwright.config.loading import apply_override, load_config
from batchwright.config.reference import option_table, render_reference
from batchwright.config.rendering import render_config, render_defaults
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
from batchwright.config.structure import structure_options

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
    "OptionDoc",
    "PluginsSection",
    "RunSection",
    "SchedulerSection",
    "Use",
    "apply_override",
    "check_combinations",
    "check_components",
    "document_options",
    "load_config",
    "option_table",
    "render_config",
    "render_defaults",
    "render_reference",
    "structure_options",
]
