"""The engine: it loads models, and computes what the scheduler plans.

``from batchwright_engine import Engine`` answers prompts; executors and attention backends
are plugins, imported when they are selected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batchwright_engine.engine import Engine

__all__ = ["Engine"]


def __getattr__(name: str) -> Any:
    """Import the engine when it is asked for: attention backends do without."""
    if name != "Engine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from batchwright_engine.engine import Engine

    return Engine
