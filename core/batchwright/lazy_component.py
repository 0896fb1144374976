"""A component by its import path, so that it is imported only when it is selected."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from attrs import frozen


@frozen
class LazyComponent:
    """A component that is imported when it is selected, or when components are listed.

    For plugins of many components, or of one that is slow to import: a run imports what its
    TOML names, and no more.

    Args:
        name: Its name in the TOML file; the class has the same ``name``.
        target: ``module:Class``, the module by its full dotted name.
    """

    name: str
    target: str

    def load(self) -> Any:
        """Import it.

        Raises:
            ImportError: There is no such module.
            AttributeError: The module has no such class.
            ValueError: The class has another name.
        """
        module, _, attribute = self.target.partition(":")
        cls = getattr(import_module(module), attribute)
        name = getattr(cls, "name", None)
        if name != self.name:
            raise ValueError(f"{self.target} is offered as {self.name!r} and named {name!r}")
        return cls
