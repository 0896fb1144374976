"""Processes that run cells. One that dies takes only its own cell with it."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define

from batchwright_plugins.command.comparison.archive import keep
from batchwright_plugins.command.comparison.cell_run import run_cell

if TYPE_CHECKING:
    from batchwright_plugins.command.comparison.cell import Cell

__all__ = ["Listener", "run_cells"]

_SPAWN = multiprocessing.get_context("spawn")


class Listener(Protocol):
    """Is told what goes on."""

    def began(self, cell: Cell) -> None:
        """A process took up a cell."""

    def ended(self, cell: Cell, problem: str) -> None:
        """A cell is done, and kept unless its process died.

        Args:
            cell: Which.
            problem: What went wrong in it; empty if nothing did.
        """


def run_cells(
    missing: Iterable[tuple[Cell, Path]], num_processes: int, listener: Listener
) -> Generator[tuple[Cell, str], None, None]:
    """Run cells in processes of their own, several at a time, each process one after another.

    Closing the iterator ends the processes at once; cells that are done are kept.

    Args:
        missing: Cells, with the files that they are kept in.
        num_processes: How many at a time.
        listener: Whom to tell.

    Yields:
        Cells whose process died, and how.
    """
    queue = deque(missing)
    workers: list[_Worker] = []
    try:
        workers = [_Worker.start() for _ in range(min(num_processes, len(queue)))]
        for worker in workers:
            worker.take(queue, listener)
        while busy := {worker.pipe: worker for worker in workers if worker.cell is not None}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                cell = worker.cell
                problem = worker.answer()
                listener.ended(cell, problem)
                if not worker.process.is_alive():
                    yield cell, problem
                    worker.restart()
                worker.take(queue, listener)
    finally:
        for worker in workers:
            worker.end()


@define(eq=False)
class _Worker:
    """A process, the cell that it is at, and the pipe to it."""

    process: Any
    pipe: Connection[Any, Any]
    cell: Any = None

    @classmethod
    def start(cls) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        with _uninterrupted():
            process.start()
        theirs.close()
        return cls(process, ours)

    def restart(self) -> None:
        self.end()
        fresh = self.start()
        self.process, self.pipe, self.cell = fresh.process, fresh.pipe, None

    def take(self, queue: deque[tuple[Cell, Path]], listener: Listener) -> None:
        """Take up the next cell, if there is one."""
        self.cell = None
        if queue:
            self.cell, path = queue.popleft()
            listener.began(self.cell)
            with suppress(OSError):  # if it has died, it will not answer
                self.pipe.send((self.cell, path))

    def answer(self) -> str:
        """What went wrong in its cell; empty if nothing did."""
        try:
            problem: str = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return f"exit code {self.process.exitcode}"
        return problem

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C; a process that starts meanwhile never sees it: who started it ends it."""
    resource_tracker.ensure_running()  # else a process's start starts it, and that lets Ctrl-C in
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection[Any, Any]) -> None:
    """What a process does: cell by cell, until nobody sends one."""
    while True:
        try:
            cell, path = pipe.recv()
        except EOFError:
            return
        record = run_cell(cell)
        keep(path, record)
        fault = record["fault"]
        pipe.send(f"{fault['kind']}: {fault['message']}" if fault else "")
