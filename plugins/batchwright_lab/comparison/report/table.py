"""Tables of a page, as its template takes them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

__all__ = ["Table", "Td"]


@frozen
class Td:
    """A cell of a table.

    Args:
        text: Plain text.
        below: A second line, smaller.
        is_best: True if it is the best of its column.
        place: Rank before the text, such as ``1.``.
        style: Look of a policy, shown before its name; None: it is no policy's name.
    """

    text: str = ""
    below: str = ""
    is_best: bool = False
    place: str = ""
    style: int | None = None


@frozen
class Table:
    """A table.

    Args:
        head: Names of columns.
        rows: Their cells.
        caption: Its caption.
        num_names: Columns on the left that hold names, not numbers.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Td]]
    caption: str
    num_names: int = 1
