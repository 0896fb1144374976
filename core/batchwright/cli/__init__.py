"""The command line: ``batchwright``, whose subcommands are plugins."""

from batchwright.cli.group import CommandGroup, main
from batchwright.cli.options import override_option

__all__ = ["CommandGroup", "main", "override_option"]
