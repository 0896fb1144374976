"""Cells that are done, each in a file of its own, and observations of their runs."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from batchwright.exceptions import ConfigError
from batchwright.plugin_manager import PluginManager
from batchwright_engine.output_file import write_text
from batchwright_lab.comparison.cell import file_digest
from batchwright_lab.comparison.cell_form import check_cell
from batchwright_plugins.text_file import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchwright_lab.comparison.cell import Cell

__all__ = ["Archive", "keep"]

_RUNS: Final = "runs"

_BEGIN: Final = b'{"policy": '
_END: Final = b"}\n"
_DAMAGED: Final = "its file is damaged"


class Archive:
    """A folder of cells. A file is there if the cell is done, and is then whole.

    Beside it the folder ``runs`` has observations of the runs under the same names: times of
    the wall clock, and modules that were imported under a computed name.

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
        """The cells that are not done, or ran other code than there is now, with their files."""
        return [(cell, path) for cell in cells if not self._is_done(path := self.path(cell))]

    def seen(self, cell: Cell) -> dict[str, Any]:
        """Observations of a cell's run; empty if none are kept."""
        return _read_run(_run_path(self.path(cell)))

    def _is_done(self, path: Path) -> bool:
        modules = _read_run(_run_path(path)).get("modules")
        return _is_whole(path) and isinstance(modules, dict) and _are_unchanged(modules)

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """Return the result of a cell; None if it is not done. A damaged file is a fault."""
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
        """Return the plugins of a cell; found once for all that load the same."""
        load, disable = cell.config.plugin_paths, cell.config.plugins.disable
        key = (*load, None, *disable)
        if key not in self._offered:
            self._offered[key] = PluginManager.discover(load, disable)
        return self._offered[key]


def keep(path: Path, record: dict[str, Any], seen: dict[str, Any]) -> None:
    """Write what came of a cell, all or nothing.

    Observations of an earlier run of the same code stay: times of the wall clock are measured
    once, so that equal cells in one folder give equal reports.
    """
    run = _run_path(path)
    run.parent.mkdir(exist_ok=True)
    if _read_run(run).get("modules") != seen["modules"]:
        write_text(run, _line(seen))
    write_text(path, _line(record))


def _line(record: dict[str, Any]) -> str:
    return f"{json.dumps(record, ensure_ascii=False)}\n"


def _run_path(path: Path) -> Path:
    return path.parent.parent / _RUNS / path.name


def _read_run(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _are_unchanged(modules: dict[str, str]) -> bool:
    try:
        return all(file_digest(Path(path)) == digest for path, digest in modules.items())
    except OSError:
        return False


def _is_whole(path: Path) -> bool:
    """Return True if a file begins and ends as one that was written to its end."""
    try:
        with path.open("rb") as file:
            begin = file.read(len(_BEGIN))
            file.seek(-len(_END), os.SEEK_END)
            return begin == _BEGIN and file.read() == _END
    except OSError:
        return False
