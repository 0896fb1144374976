"""Options that have another name now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RENAMED: Final[Mapping[str, str]] = {"simulation.leap": "simulation.fast_forward"}
"""By the path that an option had in the TOML, the one that it has."""
