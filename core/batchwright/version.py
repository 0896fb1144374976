"""The version of Batchwright, and of the interface that its plugins see."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
PLUGIN_API_VERSIONS: Final = ("1",)
"""Values that a plugin module may declare as ``batchwright_api``."""
