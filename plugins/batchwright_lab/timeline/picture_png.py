"""Renders an SVG drawing as pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from batchwright_engine.extras import install_hint
from batchwright_engine.output_file import writing

__all__ = ["write_png"]

_FAMILIES: Final = (
    "DejaVu Sans",
    "Arial",
    "Helvetica",
    "Liberation Sans",
    "Noto Sans",
    "Segoe UI",
    "Roboto",
    "Open Sans",
    "Ubuntu",
    "Cantarell",
    "FreeSans",
)
"""Fonts for sans-serif, in order; the renderer itself tries Arial only."""
_PLAIN: Final = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{}</svg>'
_LETTER: Final = '<text x="1" y="8" font-size="9" font-family="{}">M</text>'


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
            f"--png needs the package resvg-py; run: {install_hint('png')}, or take --svg"
        ) from error
    family = next((name for name in _FAMILIES if _has_family(resvg_py, name)), None)
    if family is None:
        raise click.ClickException(
            "--png finds no font on this machine, and would leave out every word; install one "
            "(on Debian: apt install fonts-dejavu-core), or take --svg"
        )
    pixels = resvg_py.svg_to_bytes(svg_string=drawing, zoom=zoom, sans_serif_family=family)
    with writing(output) as file:
        file.write(bytes(pixels))


def _has_family(resvg: Any, name: str) -> bool:
    """Return True if a letter is drawn; without the font there is none, and no error."""
    empty, letter = (
        bytes(resvg.svg_to_bytes(svg_string=_PLAIN.format(content)))
        for content in ("", _LETTER.format(name))
    )
    return empty != letter
