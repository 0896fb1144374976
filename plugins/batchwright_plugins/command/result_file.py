"""Writes results so that none is lost, whatever ends the run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from batchwright.exceptions import BatchwrightError, ConfigError

__all__ = ["NoResults", "ResultFile", "ResultStream", "Results"]


class Results(Protocol):
    """Takes results in the order in which requests end."""

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        """Take the result of the request at a place in the input."""
        ...

    def close(self) -> str:
        """Bring what there is into input order; say where it is, or ``""``."""
        ...


class NoResults:
    """Keeps nothing."""

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        """Drop it."""

    def close(self) -> str:
        return ""


class ResultFile:
    """A JSON-lines file in input order, behind a part file in the order of the ends.

    Every result is in the part file, ``FILE.part``, as soon as its request ends; what
    happens to this process then loses none. ``close`` writes the file itself beside
    it, in input order, puts it in place in one move and removes the part file.

    Args:
        path: The file; what is there is replaced by ``close``, not before.

    Raises:
        ConfigError: It cannot be written, or the part file of another run is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_dir() or not path.name:
            raise ConfigError("is a folder; a file is expected", source=str(path))
        self._part = path.with_name(f"{path.name}.part")
        try:
            # Unbuffered: a result is with the system as soon as it is written.
            self._file: IO[bytes] = self._part.open("xb", buffering=0)
        except FileExistsError:
            raise ConfigError(
                "holds the results of a run that was cut off (or still goes on); move or "
                "delete it first",
                source=str(self._part),
            ) from None
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror}", source=str(path)) from error
        self._lines: list[tuple[int, int, int]] = []

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        line = _line(result)
        start = self._file.tell()
        rest = memoryview(line)
        with self._writing():
            while rest:  # the system may take less than all of it
                rest = rest[self._file.write(rest) :]
        self._lines.append((index, start, len(line)))

    def close(self) -> str:
        self._file.close()
        if self._lines:
            with self._writing():
                self._put_in_order()
        self._part.unlink()
        return f"{len(self._lines)} results in {self._path}" if self._lines else ""

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say of a full disk where the results are."""
        try:
            yield
        except OSError as error:
            raise BatchwrightError(
                f"{self._path}: cannot be written: {error.strerror}; results that were "
                f"finished before are in {self._part}"
            ) from error

    def _put_in_order(self) -> None:
        ordered = self._path.with_name(f"{self._path.name}.tmp")
        with self._part.open("rb") as part, ordered.open("wb") as file:
            for _, start, size in sorted(self._lines):
                part.seek(start)
                file.write(part.read(size))
            file.flush()
            os.fsync(file.fileno())
        ordered.replace(self._path)


class ResultStream:
    """Standard output, in input order: a result is written when all before it are."""

    def __init__(self) -> None:
        self._held: dict[int, bytes] = {}
        self._next = 0

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        self._held[index] = _line(result)
        while self._next in self._held:
            self._write(self._held.pop(self._next))
            self._next += 1

    def close(self) -> str:
        for index in sorted(self._held):
            self._write(self._held[index])
        self._held.clear()
        return ""

    def _write(self, line: bytes) -> None:
        sys.stdout.write(line.decode())
        sys.stdout.flush()


def _line(result: Mapping[str, Any]) -> bytes:
    # A lone surrogate cannot be written as UTF-8; escaped it can.
    text = json.dumps(result, ensure_ascii=False)
    return f"{text}\n".encode(errors="backslashreplace")
