"""Cells that are done, each in a file of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from batchwright.exceptions import ConfigError
from batchwright.plugin_manager import PluginManager
from batchwright.text_file import read_text
from batchwright_plugins.command.comparison.cell_form import check_cell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchwright_plugins.command.comparison.cell import Cell

__all__ = ["Archive", "keep"]

_BEGIN: Final = b'{"policy": '
_END: Final = b"}\n"
_DAMAGED: Final = "its file is damaged"


class Archive:
    """A folder of cells. A file is there if the cell is done, and is then whole.

    Args:
        folder: Where; it is made.

    Raises:
        ConfigError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offered: dict[tuple[Any, ...], PluginManager] = {}
        self._paths: dict[Cell, Path] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot be made: {error.strerror}: {folder}", source="--output"
            ) from error

    def path(self, cell: Cell) -> Path:
        """The file of a cell, by what it depended on when it was first asked for."""
        if cell not in self._paths:
            self._paths[cell] = self._folder / cell.file_name(self._plugins(cell))
        return self._paths[cell]

    def missing(self, cells: Iterable[Cell]) -> list[tuple[Cell, Path]]:
        """The cells that are not done, with their files."""
        return [(cell, path) for cell in cells if not _is_whole(path := self.path(cell))]

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """What came of a cell; None if it is not done. A file that is damaged is a fault."""
        path = self.path(cell)
        if not _is_whole(path):
            return None
        try:
            found: dict[str, Any] = json.loads(read_text(path))
            check_cell(found)
        except (ConfigError, RecursionError, ValueError) as error:
            message = f"{path} ({error}); remove it, and the cell is run again"
            return {**cell.coordinates(), "fault": {"kind": _DAMAGED, "message": message}}
        return found

    def _plugins(self, cell: Cell) -> PluginManager:
        """What is offered to a cell; found once for all that load the same."""
        load, disable = cell.config.plugin_paths, cell.config.plugins.disable
        key = (*load, None, *disable)
        if key not in self._offered:
            self._offered[key] = PluginManager.discover(load, disable)
        return self._offered[key]


def keep(path: Path, record: dict[str, Any]) -> None:
    """Write what came of a cell, all or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        # What no file can hold stands in messages of others only: half a character.
        text = f"{json.dumps(record, ensure_ascii=False)}\n"
        part.write_bytes(text.encode(errors="replace"))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _is_whole(path: Path) -> bool:
    """Whether a file begins and ends as one that was written to its end."""
    try:
        with path.open("rb") as file:
            begin = file.read(len(_BEGIN))
            file.seek(-len(_END), os.SEEK_END)
            return begin == _BEGIN and file.read() == _END
    except OSError:
        return False
