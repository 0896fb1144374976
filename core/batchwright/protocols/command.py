"""Commands: subcommands of ``batchwright``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import click


class Command(ABC):
    """A subcommand. Registered like a component; imported only when it is used.

    The class attribute ``help`` is shown by ``batchwright --help`` without importing
    more than the module that defines the class.
    """

    name: ClassVar[str] = ""
    help: ClassVar[str] = ""

    @abstractmethod
    def build(self) -> click.Command:
        """Build the click command; heavy imports belong into its callback."""
