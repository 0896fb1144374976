"""Replaces a file by a whole one, whatever else writes it meanwhile."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

__all__ = ["replace_file"]


def replace_file(path: Path, content: bytes) -> Path:
    """Write a file beside it under a name of its own, then put it in its place.

    Of two processes that write it at once each finishes, and the content of the last one stays.

    Returns:
        The file.
    """
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        part.write_bytes(content)
        return part.replace(path)
    finally:
        part.unlink(missing_ok=True)
