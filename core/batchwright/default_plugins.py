"""The one place in core where plugins and components are named.

Everything that ships with Batchwright is a plugin like any other. Core does not import
it: it knows the dotted names of the modules below, and which components an empty TOML
file selects.
"""

from __future__ import annotations

from typing import Final

COMMAND_PLUGIN: Final = "batchwright_cli.commands"
"""All that ``batchwright --help`` has to import."""
MAIN: Final = "batchwright_cli.main"
"""The module whose ``main`` is the command line."""
READER: Final = "batchwright_plugins.config_file:read_config"
"""The reader of TOML files; core itself takes what such a file holds, as a dict."""

DEFAULT_PLUGINS: Final = (
    "batchwright_plugins.scheduler",
    "batchwright_plugins.policy",
    "batchwright_plugins.gate",
    "batchwright_plugins.control",
    "batchwright_plugins.limit",
    "batchwright_plugins.victim",
    "batchwright_plugins.preemption",
    "batchwright_plugins.predictor",
    "batchwright_plugins.kv",
    "batchwright_plugins.observer",
    "batchwright_engine.executor",
    "batchwright_engine.attention",
    "batchwright_lab.simulation",
    "batchwright_lab.estimator",
    "batchwright_lab.predictor",
    "batchwright_lab.workload",
    COMMAND_PLUGIN,
)
"""Modules that are registered before the plugins found by entry point."""

SECTIONS: Final = {
    "model": "batchwright.config.sections:ModelSection",
    "scheduler": "batchwright.config.sections:SchedulerSection",
    "kv": "batchwright.config.sections:KVSection",
    "attention": "batchwright_engine.sections:AttentionSection",
    "executor": "batchwright_engine.sections:ExecutorSection",
    "sampling": "batchwright.sampling_params:SamplingParams",
    "run": "batchwright_engine.sections:RunSection",
    "simulation": "batchwright_lab.sections:SimulationSection",
    "plugins": "batchwright.config.sections:PluginsSection",
}
"""Sections of a TOML file, each declared by the package that reads it."""

AUTO: Final = "auto"
"""No component's name: the choice follows from others."""

DEFAULT_SCHEDULER: Final = "unified"
DEFAULT_POLICY: Final = "fcfs"
DEFAULT_GATES: Final = ("full-need",)
DEFAULT_VICTIM: Final = "lifo"
"""The victim of ``victim = "auto"`` under a policy that names no ``default_victim``."""
DEFAULT_PREEMPTION: Final = "recompute"
DEFAULT_PREDICTOR: Final = "max-tokens"
DEFAULT_ESTIMATOR: Final = "linear"
DEFAULT_KV: Final = "paged"
DEFAULT_HASHER: Final = "sha256"
DEFAULT_EVICTION: Final = "lru"
