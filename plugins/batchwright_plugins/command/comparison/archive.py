"""Cells that are done, each in a file of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.exceptions import ConfigError
from batchwright.plugin_manager import PluginManager

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchwright_plugins.command.comparison.cell import Cell

__all__ = ["Archive", "keep"]


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
        return [(cell, path) for cell in cells if not (path := self.path(cell)).exists()]

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """What came of a cell; None if it is not done."""
        path = self.path(cell)
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
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
    part.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)
