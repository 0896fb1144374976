"""Renders an SVG drawing as pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["write_png"]

_PLAIN = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{}</svg>'
_LETTER = '<text x="1" y="8" font-size="9">M</text>'


def write_png(drawing: str, output: Path, *, zoom: int) -> None:
    """Render a drawing.

    Args:
        drawing: The SVG text.
        output: The file.
        zoom: Pixels a unit of the drawing.

    Raises:
        ClickException: There is nothing to render it with, or no font to write with.
    """
    try:
        import resvg_py
    except ImportError as error:
        raise click.ClickException(
            "--png needs the package resvg-py; run: pip install 'batchwright[png]', or take --svg"
        ) from error
    if not _finds_fonts(resvg_py):
        raise click.ClickException(
            "--png finds no font on this machine, and would leave out every word; install one "
            "(on Debian: apt install fonts-dejavu-core), or take --svg"
        )
    output.write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=drawing, zoom=zoom)))


def _finds_fonts(resvg: Any) -> bool:
    """Whether a letter leaves a trace; without any font there is none, and no error."""
    empty, letter = (
        bytes(resvg.svg_to_bytes(svg_string=_PLAIN.format(content))) for content in ("", _LETTER)
    )
    return empty != letter
