"""What a hook may return in place of a class: where it is, so that it is imported when needed."""

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
        name: What the TOML calls it; the class has the same ``name``.
        place: ``module:Class``, the module by its full dotted name.
    """

    name: str
    place: str

    def load(self) -> Any:
        """Import it.

        Raises:
            ImportError: There is no such module.
            AttributeError: The module has no such class.
            ValueError: The class has another name.
        """
        module, _, attribute = self.place.partition(":")
        cls = getattr(import_module(module), attribute)
        name = getattr(cls, "name", None)
        if name != self.name:
            raise ValueError(f"{self.place} is offered as {self.name!r} and named {name!r}")
        return cls
