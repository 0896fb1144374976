"""Pieces of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from attrs import frozen

__all__ = ["Td", "element", "figures", "paragraph", "table"]


@frozen
class Td:
    """What stands in a table.

    Args:
        text: Plain text; an ``html`` that is given is used instead.
        below: A second line, smaller.
        is_best: Whether it is the best of its column.
        html: What stands there, ready.
    """

    text: str = ""
    below: str = ""
    is_best: bool = False
    html: str = ""


def element(name: str, content: str, **attributes: str) -> str:
    """An element; ``class_`` is ``class``."""
    given = "".join(f' {key.rstrip("_")}="{escape(v)}"' for key, v in attributes.items())
    return f"<{name}{given}>{content}</{name}>"


def paragraph(text: str, **attributes: str) -> str:
    """A paragraph of plain text."""
    return element("p", escape(text), **attributes)


def table(
    head: Sequence[str], rows: Iterable[Sequence[Td | str]], *, caption: str, num_names: int = 1
) -> str:
    """A table that scrolls sideways where it is too wide.

    Args:
        head: Names of columns.
        rows: Their cells.
        caption: What it shows.
        num_names: Columns on the left that hold names, not numbers.
    """
    columns = "".join(
        f'<th scope="col"{_class("n" if i < num_names else "")}>{escape(name)}</th>'
        for i, name in enumerate(head)
    )
    body = "".join(f"<tr>{''.join(_cells(row, num_names))}</tr>" for row in rows)
    return (
        f'<p class="caption">{escape(caption)}</p>'
        f'<div class="wide"><table aria-label="{escape(caption)}">'
        f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(row: Sequence[Td | str], num_names: int) -> Iterable[str]:
    for index, given in enumerate(row):
        cell = given if isinstance(given, Td) else Td(given)
        content = cell.html or escape(cell.text)
        if cell.is_best:
            content = f"<strong>{content}</strong>"
        if cell.below:
            content += f"<small>{escape(cell.below)}</small>"
        if index == 0:
            yield f'<th scope="row" class="n">{content}</th>'
        else:
            yield f"<td{_class('n' if index < num_names else '')}>{content}</td>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def figures(charts: Iterable[str]) -> str:
    """Charts side by side, as many as there is room for."""
    return element("div", "".join(element("figure", chart) for chart in charts), class_="charts")
