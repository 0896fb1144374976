"""Writes files that a command makes of another one: all or nothing, and never over that one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

__all__ = ["keep_apart", "writing"]


def keep_apart(source: Path, *outputs: Path | None) -> None:
    """Refuse to write what is read, or two outputs to one file.

    Raises:
        ClickException: An output is the source, or another output.
    """
    seen = [source]
    for output in outputs:
        if output is None:
            continue
        if any(_are_same(output, other) for other in seen):
            what = "is what is read" if _are_same(output, source) else "is written twice"
            raise click.ClickException(f"{output} {what}; give another file")
        seen.append(output)


def _are_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (
        one.exists() and other.exists() and one.samefile(other)
    )


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write; it takes its place once all is written.

    Devices and pipes are written as they come.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
