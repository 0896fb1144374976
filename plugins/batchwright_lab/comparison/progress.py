"""The display while cells run."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from rich.console import Console

    from batchwright_lab.comparison.cell import Cell

__all__ = ["Progress"]


class Progress:
    """A bar over all cells, with those that run; where there is no terminal, a line a cell.

    Args:
        console: Where.
        num_cells: All of them.
        num_done: Of those, the ones that need not run.
    """

    def __init__(self, console: Console, num_cells: int, num_done: int) -> None:
        self._console = console
        self._num_cells = num_cells
        self._num_done = num_done
        self._running: dict[str, None] = {}
        columns = (
            BarColumn(), MofNCompleteColumn(), TextColumn("cells"), TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )  # fmt: skip
        self._bar = Bar(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=num_cells, completed=num_done)

    def __enter__(self) -> Progress:
        if self._num_done:
            self._say(f"{self._num_done} of {self._num_cells} cells are done already")
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if error is not None:
            self._say(f"Stopped: {self._num_done} of {self._num_cells} cells are done, and kept")

    def began(self, cell: Cell) -> None:
        """See ``Listener``."""
        self._running[cell.label] = None
        self._show()

    def ended(self, cell: Cell, problem: str) -> None:
        """See ``Listener``."""
        self._num_done += 1
        del self._running[cell.label]
        self._show(completed=self._num_done)
        if problem or not self._console.is_terminal:
            what = problem or "done"
            self._say(f"[{self._num_done}/{self._num_cells}] {cell.label}: {what}")

    def _show(self, **fields: Any) -> None:
        self._bar.update(self._task, description=" | ".join(self._running), **fields)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)
