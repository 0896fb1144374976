"""Components that a configuration names, and the options that name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import Factory, frozen

Table = Mapping[str, Any]

SELECTORS: Final = {
    "scheduler": "scheduler.use",
    "policy": "scheduler.policy",
    "victim": "scheduler.victim",
    "preemption": "scheduler.preemption",
    "predictor": "scheduler.predictor",
    "estimator": "scheduler.estimator",
    "kv": "kv.manager",
    "hasher": "kv.hasher",
    "eviction": "kv.eviction",
    "executor": "executor.use",
    "attention": "attention.backend",
    "workload": "simulation.workload",
}
"""Kinds chosen once, and the option that chooses; options in ``[<kind>.<name>]``."""

LIST_KINDS: Final = ("gate", "control", "limit", "resource", "feature", "observer")
"""Kinds that compose, in the order of ``[[<kind>]]``."""


@frozen
class Use:
    """One use of a component.

    Args:
        kind: E.g. ``gate``.
        name: E.g. ``watermark``.
        path: TOML path of its options, e.g. ``gate[1]`` or ``policy.fair``.
        option: The option that selects it, e.g. ``gate[1].use``; empty if none does.
        options: Its table, not checked yet: see ``Config.build_options``.
    """

    kind: str
    name: str
    path: str
    option: str = ""
    options: Table = Factory(dict)


def entry(kind: str, index: int, name: str, options: Table) -> Use:
    """Return the use of a component by an entry of ``[[<kind>]]``."""
    return Use(kind, name, f"{kind}[{index}]", f"{kind}[{index}].use", options)
