"""One call of ``batchwright compare``: from options to cells, files and an answer."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from batchwright.exceptions import ConfigError
from batchwright.suggest import did_you_mean
from batchwright_engine.output_file import keep_apart
from batchwright_engine.signals import catching
from batchwright_lab.comparison.answer import answer, warnings
from batchwright_lab.comparison.archive import Archive
from batchwright_lab.comparison.cell import Cell
from batchwright_lab.comparison.grid import plan_grid
from batchwright_lab.comparison.measure import RANKING
from batchwright_lab.comparison.outcome import Outcome, measure
from batchwright_lab.comparison.progress import Progress
from batchwright_lab.comparison.ranking import ranked_lines
from batchwright_lab.comparison.report.old_files import remove_old_files
from batchwright_lab.comparison.report.setup import REPORT, Setup
from batchwright_lab.comparison.summary import Summary, summarize
from batchwright_lab.comparison.tables import TABLES, write_tables
from batchwright_lab.comparison.targets import read_targets
from batchwright_lab.comparison.trouble import has_failed
from batchwright_lab.comparison.workers import LATE, run_cells
from batchwright_lab.extra_packages import REPORT_MODULES, missing_packages, without
from batchwright_plugins.files import files_read

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console

__all__ = ["Comparison"]

FAILED: Final = 1
CUT: Final = 3


class Comparison:
    """Plan the cells, run those that are missing, report all that are done.

    Args:
        config: The TOML file.
        overrides: ``key.path=value`` each.
        policies, vary, workload, rates, num_seeds, limit: See ``plan_grid``.
        targets: See ``read_targets``.
        rank_by: Key of a measure; None: ``attainment`` if there are targets, else ``e2e_mean``.
        starved_after: Seconds for which a request may be passed over.
        warmup: Requests that arrive before it (seconds) are left out of the figures; None: none.
        check: True if every invariant is checked at every step.
        jobs: Processes; None: one a processor.
        cell_timeout: Seconds that a cell may take; None: no bound.
        output: Folder for everything.
        formats: ``png`` and ``pdf``, of figures beside their SVG.

    Raises:
        ConfigError: An option is wrong; nothing has run.
        PluginError: A component cannot be had.
    """

    def __init__(
        self,
        *,
        config: Path | None,
        overrides: Sequence[str],
        targets: Sequence[str],
        rank_by: str | None,
        starved_after: float,
        warmup: float | None,
        check: bool,
        jobs: int | None,
        cell_timeout: float | None,
        output: Path,
        formats: Sequence[str] = (),
        **grid: Any,
    ) -> None:
        _check_formats(formats)
        self._targets = read_targets(targets)
        self._rank_by = _ranking(rank_by, bool(self._targets))
        self._starved_after = starved_after
        self._warmup = warmup or 0.0
        self._jobs = jobs or os.cpu_count() or 1
        self._cell_timeout = math.inf if cell_timeout is None else cell_timeout
        self._output = output
        self._formats = formats
        self.grid = plan_grid(config, overrides, checked=check, **grid)

    def run(self) -> int:
        """Run it, and write what comes of it.

        Returns:
            The exit code.
        """
        from rich.console import Console

        notices = Console(stderr=True, highlight=False)
        archive = Archive(self._output / "cells")
        keep_apart(self._files_read(), *(self._output / name for name in (REPORT, *TABLES)))
        missing = archive.missing(self.grid.cells)
        lost: dict[Cell, dict[str, str]] = {}
        signal = self._run_missing(missing, lost, notices)
        outcomes = list(self._outcomes(archive, lost))
        summary = summarize(self.grid, outcomes, self._rank_by)
        self._report(outcomes, summary)
        if signal:
            return 128 + signal
        num_cut = sum(fault["kind"] == LATE for fault in lost.values())
        if sum(has_failed(outcome.record) for outcome in outcomes) > num_cut:
            return FAILED
        return CUT if num_cut else 0

    def _files_read(self) -> Iterable[tuple[str, Path]]:
        found = (pair for cell in self.grid.cells for pair in files_read(cell.config))
        return dict.fromkeys(found)

    def _run_missing(
        self,
        missing: Sequence[tuple[Cell, Path]],
        lost: dict[Cell, dict[str, str]],
        notices: Console,
    ) -> int:
        """Run cells; the signal that ended it, or 0."""
        num_cells = len(self.grid.cells)
        progress = Progress(notices, num_cells, num_cells - len(missing))
        cells = run_cells(missing, self._jobs, progress, self._cell_timeout)
        try:
            with progress, catching(_interrupt), closing(cells):
                lost.update(cells)
        except _Interrupted as interrupted:
            return interrupted.number
        return 0

    def _outcomes(self, archive: Archive, lost: dict[Cell, dict[str, str]]) -> Iterator[Outcome]:
        """Return the outcomes of the cells that are done, and of those that were lost."""
        for cell in self.grid.cells:
            record = archive.read(cell)
            if cell in lost:
                record = {**cell.coordinates(), "fault": lost[cell]}
            if record is not None:
                seen = archive.seen(cell)
                yield measure(record, self._targets, self._starved_after, self._warmup, seen)

    def _report(self, outcomes: Sequence[Outcome], summary: Summary) -> None:
        from rich.console import Console

        write_tables(self._output, outcomes, summary)
        setup = Setup(
            command=shlex.join(["batchwright", *sys.argv[1:]]),
            seeds=self.grid.seeds,
            targets=self._targets,
            starved_after=self._starved_after,
            warmup=self._warmup,
        )
        remove_old_files(self._output)
        missing = missing_packages(*REPORT_MODULES)
        if not missing:
            from batchwright_lab.comparison.report.write import write_report

            write_report(self._output, outcomes, summary, setup, self._formats)
        console = Console(highlight=False)
        table = ["", *ranked_lines(summary), ""] if summary.num_done else []
        for line in (*answer(summary), *table, *warnings(summary)):
            console.print(line, markup=False, soft_wrap=True)
        done = f"{summary.num_done} of {summary.num_cells} cells:"
        console.print(
            f"{done} {self._output / TABLES[-1]}; {without(REPORT, missing)}"
            if missing
            else f"{done} {self._output / REPORT}",
            markup=False,
            soft_wrap=True,
        )


def _check_formats(formats: Sequence[str]) -> None:
    """Refuse figures that nothing is installed for, before anything has run.

    Raises:
        ConfigError: Something is missing.
    """
    missing = missing_packages(*REPORT_MODULES) if formats else []
    if missing:
        source = ", ".join(f"--{name}" for name in formats)
        raise ConfigError(without("figures", missing), source=source)


def _ranking(key: str | None, has_targets: bool) -> str:
    """Return the measure that ranks the policies.

    Raises:
        ConfigError: There is no such measure, or it needs targets.
    """
    chosen = key or ("attainment" if has_targets else "e2e_mean")
    if chosen not in RANKING:
        hint = f"{did_you_mean(chosen, RANKING)} Choices: {', '.join(RANKING)}"
        raise ConfigError(f"there is no such measure.{hint}", source=f"--rank-by {chosen}")
    if chosen in ("attainment", "goodput") and not has_targets:
        raise ConfigError("needs --target", source=f"--rank-by {chosen}")
    return chosen


class _Interrupted(KeyboardInterrupt):
    """A signal asks to stop; nothing but ``run`` may catch it."""

    def __init__(self, number: int) -> None:
        self.number = number


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise _Interrupted(number)
