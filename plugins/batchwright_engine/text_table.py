"""Tables on a terminal: columns of plain text, without lines between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import zip_longest
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["aligned"]

_UNBOUNDED: Final = 1_000_000
"""Columns of the terminal that nothing is wrapped for."""


def aligned(
    rows: Iterable[Iterable[str]], *, gap: int = 2, least: int = 0, indent: str = ""
) -> Iterator[str]:
    """Yield a line a row, each column as wide as the widest of its cells on a terminal.

    Args:
        rows: Their cells.
        gap: Spaces between columns.
        least: Width of the first column at least (characters).
        indent: Text before each line.
    """
    cells = [list(row) for row in rows]
    if not cells:
        return
    table = Table.grid(padding=(0, gap, 0, 0))
    for number, _ in enumerate(zip_longest(*cells)):
        table.add_column(no_wrap=True, min_width=0 if number else least)
    for row in cells:
        table.add_row(*map(Text, row))
    output = StringIO()
    Console(file=output, width=_UNBOUNDED, color_system=None, legacy_windows=False).print(table)
    for line in output.getvalue().splitlines():
        yield f"{indent}{line}".rstrip()
