"""Raw results of a benchmark: a JSON file that says when, where and how they were measured.

Benchmarks write these files (``--record FILE``); ``tables.py`` makes the tables of the
documents from those in ``results/``.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "ROOT", "Record", "read"]

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"


class Record:
    """Raw results of one command.

    Args:
        packages: Distributions whose versions belong to the results.
        settings: Settings of the benchmark that a reader of a table needs.

    Attributes:
        rows: Results, each with all of its rounds.
    """

    def __init__(self, packages: Iterable[str], **settings: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        self._head = {
            "date": dt.date.today().isoformat(),
            "command": _command(),
            "commit": _commit(),
            "machine": machine(),
            "versions": {"python": platform.python_version(), **_versions(packages)},
            "settings": settings,
        }
        self._load = os.getloadavg()[0]

    def add(self, **row: Any) -> None:
        self.rows.append(row)

    def add_versions(self, versions: dict[str, str]) -> None:
        """Add versions that another process has told."""
        self._head["versions"].update(versions)

    def write(self, path: Path | None) -> None:
        """Write the file, if any is wanted."""
        if path is None:
            return
        loads = [round(self._load, 2), round(os.getloadavg()[0], 2)]
        content = {**self._head, "load_before_and_after": loads}
        rows = ",\n  ".join(json.dumps(row) for row in self.rows)
        text = json.dumps(content, indent=1).removesuffix("\n}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{text},\n "rows": [\n  {rows}\n ]\n}}\n', encoding="utf-8")


def read(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """Read a file of results by its name."""
    content: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return content


def machine() -> dict[str, Any]:
    """The CPU, its cores, and those of its features that decide how products are computed."""
    cpu, flags = platform.processor() or platform.machine(), set()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line.partition(":") for line in info.read_text().splitlines()]
        found = {name.strip(): value.strip() for name, _, value in reversed(lines)}
        cpu, flags = found.get("model name", cpu), set(found.get("flags", "").split())
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": cpu, "cores": cores, "features": features, "system": platform.system()}


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _command() -> str:
    """The command, as one types it at the root of the repository, but for ``--record``."""
    words = [_shown(Path(sys.argv[0]).resolve()), *sys.argv[1:]]
    if "--record" in words:
        place = words.index("--record")
        del words[place : place + 2]
    return shlex.join(["python", *(_shown(Path(word)) for word in words)])


def _shown(word: Path) -> str:
    """Paths of this machine are of no use elsewhere."""
    if word.is_relative_to(ROOT):
        return str(word.relative_to(ROOT))
    return ("FOLDER" if word.is_dir() else word.name) if word.is_absolute() else str(word)


def _commit() -> str:
    """The commit, marked if the code has been changed since; nothing outside of git."""
    try:
        found = _git("rev-parse", "--short=10", "HEAD").stdout.strip()
        changed = _git("status", "--porcelain", "core", "plugins", "tests/benchmarks/*.py").stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{found}, changed" if changed else found


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
