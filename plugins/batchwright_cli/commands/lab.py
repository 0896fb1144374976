"""The extra ``lab``: the packages that reports, pictures and fits take, and words for lack of them.

Commands that simulate and run do without; they import these packages where they use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from batchwright_engine.extras import install_hint

__all__ = ["REPORT_PACKAGES", "missing_packages", "without"]

REPORT_PACKAGES: Final = {"altair": "altair", "jinja2": "jinja2", "vl_convert": "vl-convert-python"}
"""Modules that a report imports, with the packages that have them."""


def missing_packages(*modules: str) -> list[str]:
    """Return the packages of those modules that are not installed."""
    return [REPORT_PACKAGES.get(name, name) for name in modules if not _is_there(name)]


def without(what: str, packages: Sequence[str]) -> str:
    """Say what cannot be written for lack of packages, and how to install them."""
    return f"no {what} without {', '.join(packages)}; run: {install_hint('lab')}"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # an import of it is barred
        return False
