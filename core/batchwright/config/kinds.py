"""Sections, kinds of components, and how the TOML chooses one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import Factory, frozen

from batchwright.config.sections import (
    AttentionSection,
    ExecutorSection,
    KVSection,
    ModelSection,
    PluginsSection,
    RunSection,
    SchedulerSection,
)
from batchwright.sampling_params import SamplingParams

Table = Mapping[str, Any]

SECTIONS: Final[Mapping[str, type[Any]]] = {
    "model": ModelSection,
    "scheduler": SchedulerSection,
    "kv": KVSection,
    "attention": AttentionSection,
    "executor": ExecutorSection,
    "sampling": SamplingParams,
    "run": RunSection,
    "plugins": PluginsSection,
}
SELECTORS: Final = {
    "policy": "scheduler.policy",
    "victim": "scheduler.victim",
    "preemption": "scheduler.preemption",
    "kv": "kv.manager",
    "hasher": "kv.hasher",
    "eviction": "kv.eviction",
    "executor": "executor.use",
    "attention": "attention.backend",
}
"""Kinds chosen once, and the option that chooses; options in ``[<kind>.<name>]``."""

LIST_KINDS: Final = ("gate", "control", "limit", "resource", "observer")
"""Kinds that compose, in the order of ``[[<kind>]]``."""


@frozen
class Use:
    """One use of a component.

    Args:
        kind: E.g. ``gate``.
        name: E.g. ``watermark``.
        path: Where the TOML holds its options, e.g. ``gate[1]`` or ``policy.fair``.
        option: The option that selects it, e.g. ``gate[1].use``; empty if none does.
        options: Its table, not checked yet: see ``structure_options``.
    """

    kind: str
    name: str
    path: str
    option: str = ""
    options: Table = Factory(dict)
