"""Write files that a command makes: all or nothing, and never over what it reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

from batchwright.exceptions import ConfigError
from batchwright_plugins.files import is_same_file, prepare_output

__all__ = [
    "Staged",
    "is_standard_output",
    "is_stream",
    "keep_apart",
    "open_stream",
    "target_of",
    "write_bytes",
    "write_text",
    "writing",
]

_STANDARD: Final = (1, 2)


def keep_apart(taken: Iterable[tuple[str, Path]], *outputs: Path | None) -> None:
    """Check what is to be written before anything is computed, and make the folders.

    Args:
        taken: Files that are read, and those of observers, each after the words that name it.
        outputs: Files that are to be written; None for those that are not.

    Raises:
        ConfigError: An output is one of those, another output, or a folder; or it
            cannot be written.
    """
    sources, seen = list(taken), list[Path]()
    for output in outputs:
        if output is None:
            continue
        if output.is_dir() or not output.name:
            raise ConfigError("is a folder; a file is expected", source=str(output))
        prepare_output(output, sources)
        if is_stream(output):
            continue
        if any(is_same_file(output, other) for other in seen):
            raise ConfigError("is written twice; give another file", source=str(output))
        if not os.access(target_of(output).parent, os.W_OK | os.X_OK):
            raise ConfigError("cannot be written: Permission denied", source=str(output))
        seen.append(output)


def is_stream(path: Path) -> bool:
    """Return True if a path is a device, a FIFO or a standard stream: never replaced."""
    return (path.exists() and not path.is_file()) or _standard(path) is not None


def is_standard_output(path: Path) -> bool:
    """Return True if a path leads to standard output."""
    return _standard(path) == _STANDARD[0]


def target_of(path: Path) -> Path:
    """The file that a path leads to: a symbolic link stays one when its file is replaced."""
    return path.resolve() if path.is_symlink() else path


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write; it takes its place once all is written.

    Devices and FIFOs are written as the bytes come.

    Raises:
        OSError: It cannot be written; names it.
    """
    try:
        if is_stream(path):
            with open_stream(path) as file:
                yield file
        else:
            yield from _replacing(target_of(path))
    except OSError as error:
        if error.filename is None:  # a disk that is full
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a file of text in UTF-8, all or nothing; half characters are escaped."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, all or nothing."""
    with writing(path) as file:
        file.write(content)


def _replacing(path: Path) -> Iterator[IO[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _standard(path: Path) -> int | None:
    """Number of the standard stream that a path leads to, if it leads to one."""
    for number in _STANDARD:
        try:
            if os.path.samestat(path.stat(), os.fstat(number)):
                return number
        except OSError:
            continue
    return None


def open_stream(path: Path, buffering: int = -1) -> IO[bytes]:
    """Open a device, a FIFO, or what a standard stream goes to, without cutting that off."""
    number = _standard(path)
    if number is None:
        return path.open("wb", buffering)
    (sys.stdout, sys.stderr)[number - 1].flush()
    return os.fdopen(os.dup(number), "wb", buffering)


class Staged:
    """Files of one run that take their places together, once it has ended.

    Where an earlier run has left one of them, each is written as ``FILE.part`` until then,
    and a run that is cut off leaves the earlier files as they are. Else they are written in
    place.

    Args:
        files: The files.

    Attributes:
        is_whole: Set when the run has ended of itself.
    """

    def __init__(self, *files: Path) -> None:
        self.files = files
        self.is_whole = False
        self._replaces = any(file.is_file() for file in files)

    def part(self, file: Path) -> Path:
        """Return the path that a file is written to; a device or a FIFO is written itself."""
        if not self._replaces or is_stream(file):
            return file
        target = target_of(file)
        return target.with_name(f"{target.name}.part")

    @contextmanager
    def held(
        self, taken: Iterable[tuple[str, Path]], say: Callable[[str], object]
    ) -> Iterator[None]:
        """Put the files in place behind the block, if the run has ended of itself.

        Args:
            taken: Files that may not be written; see ``keep_apart``.
            say: Called with the place of the files, if they are not in place.

        Raises:
            ConfigError: A file cannot be written, or is read.
        """
        self.is_whole = False
        parts = {part: file for file in self.files if (part := self.part(file)) != file}
        keep_apart(taken, *self.files, *parts)
        for part in parts:
            part.unlink(missing_ok=True)
        try:
            yield
        finally:
            written = {part: file for part, file in parts.items() if part.exists()}
            if self.is_whole:
                for part, file in written.items():
                    part.replace(target_of(file))
            elif written:
                listed = ", ".join(map(str, written))
                say(f"{listed}: what was written; the files of an earlier run are unchanged")
