"""Options that have another name now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RENAMED: Final[Mapping[str, str]] = {
    "policy.priority.displaces": "policy.priority.preempts",
    "policy.window.debt": "policy.window.fairness",
    "scheduler.max_displacements": "scheduler.max_policy_preemptions",
    "simulation.leap": "simulation.fast_forward",
}
"""By the path that an option had in the TOML, the one that it has."""
