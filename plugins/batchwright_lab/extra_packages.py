"""The extra ``lab``: the packages that reports, pictures and fits take, and words for lack of them.

Commands that simulate and run do without; they import these packages where they use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from batchwright_plugins.extras import install_hint

__all__ = ["FIT_MODULES", "PICTURE_MODULES", "REPORT_MODULES", "missing_packages", "without"]

REPORT_MODULES: Final = ("altair", "jinja2", "vl_convert")
"""Modules that a report imports."""
PICTURE_MODULES: Final = ("altair", "vl_convert")
"""Modules that draw a picture."""
FIT_MODULES: Final = ("numpy", "scipy")
"""Modules that fit coefficients to measurements."""
_PACKAGES: Final = {"vl_convert": "vl-convert-python"}
"""Packages whose names are not those of their modules."""


def missing_packages(*modules: str) -> list[str]:
    """Return the packages of those modules that are not installed."""
    return [_PACKAGES.get(name, name) for name in modules if not _is_there(name)]


def without(what: str, packages: Sequence[str]) -> str:
    """Say what cannot be written for lack of packages, and how to install them."""
    return f"no {what} without {', '.join(packages)}; run: {install_hint('lab')}"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # an import of it is barred
        return False
