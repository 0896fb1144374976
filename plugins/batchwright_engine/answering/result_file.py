"""Write results so that none is lost, whatever ends the run."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from batchwright.exceptions import BatchwrightError, ConfigError
from batchwright_engine.output_file import open_stream, target_of

if sys.platform != "win32":
    import fcntl

__all__ = ["NoResults", "ResultFile", "ResultStream", "Results"]


class Results(Protocol):
    """Take results in the order in which requests end.

    Attributes:
        fate: Fate of the results of a stopped run, to follow "and".
    """

    fate: str

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        """Take the result of the request at a place in the input."""
        ...

    def close(self, *, is_complete: bool = True) -> str:
        """Bring what there is into input order; say where it is, or ``""``.

        Args:
            is_complete: True if every request has its result.
        """
        ...


class NoResults:
    """Keep nothing."""

    fate = "are not kept: there is no --output"

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        """Drop it."""

    def close(self, *, is_complete: bool = True) -> str:
        return ""


class ResultFile:
    """A JSON-lines file in input order, behind a part file in the order of the ends.

    Every result is in the part file, ``FILE.part``, as soon as its request ends; what
    happens to this process then loses none. ``close`` writes the file itself beside
    it, in input order, puts it in place in one move and removes the part file. Results of
    a run that was cut off stay in the part file if there is a file already.

    Args:
        path: The file; what is there is replaced by ``close``, not before.

    Raises:
        ConfigError: It cannot be written, or the part file of another run is there.
    """

    fate = "are kept"

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_dir() or not path.name:
            raise ConfigError("is a folder; a file is expected", source=str(path))
        self._target = target_of(path)
        self._part = self._target.with_name(f"{self._target.name}.part")
        try:
            self._file = _open_part(self._part)
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror}", source=str(path)) from error
        self._lines: list[tuple[int, int, int]] = []

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        line = _line(result)
        start = self._file.tell()
        rest = memoryview(line)
        with self._writing("kept"):
            while rest:  # the system may take less than all of it
                rest = rest[self._file.write(rest) :]
        self._lines.append((index, start, len(line)))

    def close(self, *, is_complete: bool = True) -> str:
        with self._file:  # whose lock keeps other runs away until all is in place
            if not self._lines:
                self._part.unlink()
                return ""
            keeps = not is_complete and self._target.exists() and self._target.stat().st_size > 0
            with self._writing(f"in {self._part}"):
                self._put_in_order(self._part if keeps else self._target)
            if keeps:
                return (
                    f"{len(self._lines)} results in {self._part}; {self._path} is as the run "
                    "before this one left it"
                )
            self._part.unlink()
            return f"{len(self._lines)} results in {self._path}"

    @contextmanager
    def _writing(self, where: str) -> Iterator[None]:
        """Say of a full disk where the results are."""
        try:
            yield
        except OSError as error:
            raise BatchwrightError(
                f"{self._path}: cannot be written: {error.strerror}; results that were "
                f"finished before are {where}"
            ) from error

    def _put_in_order(self, target: Path) -> None:
        ordered = self._target.with_name(f"{self._target.name}.{os.getpid()}.tmp")
        try:
            with self._part.open("rb") as part, ordered.open("wb") as file:
                for _, start, size in sorted(self._lines):
                    part.seek(start)
                    file.write(part.read(size))
                file.flush()
                os.fsync(file.fileno())
            ordered.replace(target)
        finally:
            ordered.unlink(missing_ok=True)


def _open_part(part: Path) -> IO[bytes]:
    """Open a part file for this run alone.

    An empty one that no process holds is of a run that ended before its first result.

    Raises:
        ConfigError: Another run writes it, or it holds results.
    """
    while True:
        # Unbuffered: a result is with the system as soon as it is written.
        file: IO[bytes] = part.open("ab", buffering=0)
        try:
            _lock(file, part)
            found = os.fstat(file.fileno())
            if found.st_size:
                raise ConfigError(
                    "holds the results of a run that was cut off; move or delete it first",
                    source=str(part),
                )
            if part.exists() and os.path.samestat(found, part.stat()):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # the run that held it has put it away meanwhile


def _lock(file: IO[bytes], part: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        problem = "is written by a run that still goes on; wait for it, or give another file"
        raise ConfigError(problem, source=str(part)) from None
    except OSError:  # a file system without locks
        return


class ResultStream:
    """A stream, in input order: a result is written when all before it are.

    Standard output gets JSON in its own encoding, in which any character can be escaped;
    devices and FIFOs get UTF-8.

    Args:
        path: A device or a FIFO; None: standard output.
    """

    fate = "are written"

    def __init__(self, path: Path | None = None) -> None:
        self._held: dict[int, bytes] = {}
        self._next = 0
        self._path = path
        with self._writing():
            self._file = None if path is None else open_stream(path, buffering=0)

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        self._held[index] = _line(result, is_ascii=self._file is None and not _is_utf8(sys.stdout))
        while self._next in self._held:
            self._write(self._held.pop(self._next))
            self._next += 1

    def close(self, *, is_complete: bool = True) -> str:
        for index in sorted(self._held):
            self._write(self._held[index])
        self._held.clear()
        if self._file is not None:
            self._file.close()
        return ""

    def _write(self, line: bytes) -> None:
        if self._file is None:
            sys.stdout.write(line.decode())
            sys.stdout.flush()
            return
        rest = memoryview(line)
        with self._writing():
            while rest:
                rest = rest[self._file.write(rest) :]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._held.clear()
            raise BatchwrightError(f"{self._path}: cannot be written: {error.strerror}") from error


def _line(result: Mapping[str, Any], *, is_ascii: bool = False) -> bytes:
    # A lone surrogate cannot be written as UTF-8; escaped it can.
    text = json.dumps(result, ensure_ascii=is_ascii)
    return f"{text}\n".encode(errors="backslashreplace")


def _is_utf8(stream: IO[str]) -> bool:
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name == "utf-8"
