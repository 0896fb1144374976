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

__all__ = ["Archive"]


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
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot be made: {error.strerror}: {folder}", source="--output"
            ) from error

    def path(self, cell: Cell) -> Path:
        """The file of a cell."""
        config = cell.config
        key = (*config.plugin_paths, None, *config.plugins.disable)
        if key not in self._offered:
            self._offered[key] = PluginManager.discover(config.plugin_paths, config.plugins.disable)
        return self._folder / cell.file_name(self._offered[key])

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


def keep(path: Path, record: dict[str, Any]) -> None:
    """Write what came of a cell, all or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)
