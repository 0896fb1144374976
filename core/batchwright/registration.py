"""Offers of plugins: one Registration a component, one BrokenPlugin a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import frozen

from batchwright.exceptions import PluginError
from batchwright.hookspecs import COMPONENT_KINDS, HOOK_PREFIX


@frozen(kw_only=True)
class Origin:
    """The source of a plugin.

    Args:
        plugin: Its name for ``plugins.disable``.
        module: Dotted name of the module that holds its hooks.
        distribution: Name of the distribution that ships it; empty for a single file.
        version: Version of the distribution.
        path: The file, for a plugin loaded by ``plugins.load``.
        explicit: True if it was asked for by file or by object, not merely found.
    """

    plugin: str
    module: str
    distribution: str = ""
    version: str = ""
    path: Path | None = None
    explicit: bool = False

    def __str__(self) -> str:
        return f"{self.path or self.module} ({self.distribution_label or 'no distribution'})"

    @property
    def distribution_label(self) -> str:
        """``name version``, or an empty string."""
        return f"{self.distribution} {self.version}".strip()

    @property
    def names(self) -> list[str]:
        """Names by which ``plugins.disable`` may call it, its distribution included."""
        names = (self.plugin, self.distribution, "" if self.path else self.module)
        return [name for name in names if name]


@frozen(kw_only=True)
class Registration(Origin):
    """A component that the TOML can select, and the plugin that it comes from.

    Args:
        kind: E.g. ``policy``.
        name: Its name in the TOML file.
        cls: Its class: a ``Component``, or a ``Command``.
    """

    kind: str
    name: str
    cls: type[Any]


@frozen(kw_only=True)
class BrokenPlugin(Origin):
    """Something of a plugin that cannot be used, and why.

    Args:
        message: The fault, the expected value, the remedy.
        where: The hook at fault.
        name: The component that is missing now, if known.
    """

    message: str
    where: str = ""
    name: str = ""

    def error(self) -> PluginError:
        """Build the exception that says all this."""
        return PluginError(
            f"{self.message} [{self.path or self.module}]",
            plugin=self.plugin,
            distribution=self.distribution_label,
            where=self.where,
        )

    def may_have_offered(self, kind: str, name: str) -> bool:
        """Return True if this fault could be the reason why a component is missing."""
        if self.where.removeprefix(HOOK_PREFIX) not in COMPONENT_KINDS:
            return True
        return self.where == HOOK_PREFIX + kind and self.name in ("", name)
