"""Processes that run cells. One that dies or hangs takes only its own cell with it."""

from __future__ import annotations

import math
import multiprocessing
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from attrs import Factory, define

from batchwright.clock import MonotonicClock
from batchwright_lab.comparison.archive import keep
from batchwright_lab.comparison.cell_run import observe_cell
from batchwright_lab.comparison.trouble import trouble_of

if TYPE_CHECKING:
    from batchwright_lab.comparison.cell import Cell

__all__ = ["LATE", "Listener", "run_cells"]

_SPAWN = multiprocessing.get_context("spawn")
_DIED: Final = "its process died"
LATE: Final = "ran out of time"
_UNKEPT: Final = "could not be kept"
_LONGEST_WAIT: Final = 3600.0


class Listener(Protocol):
    """A listener to events of workers."""

    def began(self, cell: Cell) -> None:
        """A process took up a cell."""

    def ended(self, cell: Cell, problem: str) -> None:
        """A cell is done, and kept unless its process died or ran out of time.

        Args:
            cell: Which.
            problem: Failure of the cell; empty if there is none.
        """


def run_cells(
    missing: Iterable[tuple[Cell, Path]],
    num_processes: int,
    listener: Listener,
    timeout: float = math.inf,
) -> Generator[tuple[Cell, dict[str, str]], None, None]:
    """Run cells in processes of their own, several at a time, each process one after another.

    Closing the iterator ends the processes at once; cells that are done are kept.

    Args:
        missing: Cells, with the files that they are kept in.
        num_processes: Most processes at a time.
        listener: The listener.
        timeout: Seconds that a cell may take, the start of its process included.

    Yields:
        Cells of which nothing is kept, and the fault: ``kind`` and ``message``.
    """
    queue = deque(missing)
    workers: list[_Worker] = []
    try:
        workers = [_Worker.start(timeout) for _ in range(min(num_processes, len(queue)))]
        for worker in workers:
            worker.take(queue, listener)
        while busy := [worker for worker in workers if worker.cell is not None]:
            for worker in _answering_or_late(busy):
                cell = worker.cell
                problem = worker.answer()
                listener.ended(cell, problem)
                if worker.lost_by:
                    yield cell, {"kind": worker.lost_by, "message": problem}
                    worker.restart()
                worker.take(queue, listener)
    finally:
        for worker in workers:
            worker.end()


def _answering_or_late(busy: list[_Worker]) -> list[_Worker]:
    """Wait for the next ones."""
    left = min(worker.seconds_left for worker in busy)
    pipes = wait([worker.pipe for worker in busy], min(max(0.0, left), _LONGEST_WAIT))
    return [worker for worker in busy if worker.pipe in pipes or worker.seconds_left <= 0]


@define(eq=False)
class _Worker:
    """A process, the cell that it is at, and the pipe to it.

    Attributes:
        lost_by: Reason why it cannot be used any more; empty if it can.
    """

    process: Any
    pipe: Connection[Any, Any]
    timeout: float
    clock: MonotonicClock = Factory(MonotonicClock)
    cell: Any = None
    began: float = 0.0
    lost_by: str = ""

    @classmethod
    def start(cls, timeout: float) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        with _uninterrupted():
            process.start()
        theirs.close()
        return cls(process, ours, timeout)

    def restart(self) -> None:
        self.end()
        fresh = self.start(self.timeout)
        self.process, self.pipe, self.cell, self.lost_by = fresh.process, fresh.pipe, None, ""

    @property
    def seconds_left(self) -> float:
        """Time that it has left for its cell (seconds)."""
        return self.began + self.timeout - self.clock.now()

    def take(self, queue: deque[tuple[Cell, Path]], listener: Listener) -> None:
        """Take up the next cell, if there is one."""
        self.cell = None
        if queue:
            self.cell, path = queue.popleft()
            self.began = self.clock.now()
            listener.began(self.cell)
            with suppress(OSError):  # if it has died, it will not answer
                self.pipe.send((self.cell, path))

    def answer(self) -> str:
        """Return the failure of its cell; empty if there is none."""
        if not self.pipe.poll():
            self.lost_by = LATE
            return f"it took more than {self.timeout:g} s (--cell-timeout)"
        try:
            problem: str
            self.lost_by, problem = self.pipe.recv()
        except (EOFError, OSError):
            self.lost_by = _DIED
            self.process.join()
            return f"exit code {self.process.exitcode}"
        return problem

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C; a process that starts meanwhile never sees it, and its parent ends it."""
    resource_tracker.ensure_running()  # else a process's start starts it, and that lets Ctrl-C in
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection[Any, Any]) -> None:
    """Run cell by cell in a process, until none is sent."""
    while True:
        try:
            cell, path = pipe.recv()
        except EOFError:
            return
        record, seen = observe_cell(cell)
        problem = "", trouble_of(record)
        try:
            keep(path, record, seen)
        except OSError as error:
            problem = _UNKEPT, f"{path}: {error.strerror}"
        pipe.send(tuple(text.encode(errors="replace").decode() for text in problem))
