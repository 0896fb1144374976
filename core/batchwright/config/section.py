"""Sections of a TOML file, declared by the packages that read them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from batchwright.default_plugins import SECTIONS


class Section:
    """A section that a package beside the core declares: an attrs class of options.

    ``batchwright.default_plugins.SECTIONS`` lists it; ``Config.section`` returns it.
    """

    name: ClassVar[str]
    """Its name in the TOML file."""
    components: ClassVar[Mapping[str, str]] = {}
    """Options that name one more component of a kind, or ``auto``, with that kind."""
    files_read: ClassVar[Mapping[str, str]] = {}
    """Options that are the path of a file which is read, with words for that file."""


@cache
def section_types() -> Mapping[str, type[Any]]:
    """Return the classes of all sections by name, in the order of the reference."""
    found = {}
    for name, target in SECTIONS.items():
        module, _, attribute = target.partition(":")
        found[name] = getattr(import_module(module), attribute)
    return found
