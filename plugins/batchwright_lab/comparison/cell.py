"""A cell of the grid: one policy, one set of options, one rate, one seed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from batchwright.config import Config, Use
from batchwright.plugin_manager import PluginManager
from batchwright_lab.comparison.code_files import code_files, package_files
from batchwright_lab.configuration.defaults import with_component_defaults
from batchwright_lab.configuration.rendering import render_config
from batchwright_lab.sections import SimulationSection

__all__ = ["Cell", "file_digest", "short_digest"]

_UNSAFE: Final = re.compile(r"[^\w.+=-]+")
_OWN: Final = ("batchwright", "batchwright_plugins")
_FOLDERS: Final = ("path", "profile")
"""Options that may name a folder."""
_FORMAT: Final = 2
"""Of what is kept of a cell; another one is run anew."""


@frozen(eq=False)
class Cell:
    """Everything that says what a simulation does.

    Args:
        policy: Label of the policy.
        variation: Label of the values that vary; empty if none does.
        rate: Mean arrivals (1/s); None: as the workload says.
        seed: Seed of all streams of chance.
        limit: Requests that are taken; None: all.
        checked: True if every invariant is checked at every step.
        config: The configuration, with policy, values, workload and seed.
    """

    policy: str
    variation: str
    rate: float | None
    seed: int
    limit: int | None
    checked: bool
    config: Config

    @property
    def label(self) -> str:
        """The cell in words."""
        rate = "" if self.rate is None else f"rate {self.rate:g}"
        return ", ".join(filter(None, [self.policy, self.variation, rate, f"seed {self.seed}"]))

    def coordinates(self) -> dict[str, Any]:
        """Return its place in the grid."""
        return {name: getattr(self, name) for name in ("policy", "variation", "rate", "seed")}

    def toml(self, plugins: PluginManager) -> str:
        """Its configuration with every value that is in effect."""
        return render_config(with_component_defaults(self.config, plugins))

    def file_name(self, plugins: PluginManager) -> str:
        """A name that changes with anything that could change what comes of it."""
        identity = {
            "format": _FORMAT,
            **self.coordinates(),
            "limit": self.limit,
            "checked": self.checked,
            "toml": self.toml(plugins),
            "code": _digests([*own_files(), *self.code(plugins)]),
            "files": [file_digest(path) for path in sorted(self._data_files(plugins))],
        }
        digest = sha256(json.dumps(identity).encode()).hexdigest()[:16]
        return f"{_UNSAFE.sub('_', self.label.replace(', ', '_'))[:80]}-{digest}.json"

    def code(self, plugins: PluginManager) -> list[Path]:
        """The files of its components, and of what they import; Batchwright's are left out.

        All that ``plugins.load`` names is among them: a file may change what it imports.
        """
        roots = list(self.config.plugin_paths)
        packages: dict[str, None] = {}
        for use in self._uses():
            found = plugins.find(use.kind, use.name)
            if found.path is None:
                names = (found.cls.__module__, found.module)
                packages |= dict.fromkeys(name.partition(".")[0] for name in names)
        for package in packages:
            if package not in _OWN:
                roots += package_files(package)
        return code_files(roots, own_files())

    def policy_code(self, plugins: PluginManager) -> list[Path]:
        """The file of its policy, then those of the modules that it imports."""
        found = plugins.find("policy", self.config.scheduler.policy)
        file = found.path or getattr(sys.modules.get(found.cls.__module__), "__file__", None)
        if file is None:
            return []
        first = Path(file).resolve()
        own = own_files()
        return (
            [first]
            if first in own
            else [first, *(f for f in code_files([first], own) if f != first)]
        )

    def _data_files(self, plugins: PluginManager) -> Iterator[Path]:
        """The files that options of its components name, defaults included."""
        for use in with_component_defaults(self.config, plugins).uses():
            for option, value in use.options.items() if use.kind != "observer" else ():
                if isinstance(value, str) and value:
                    path = self.config.resolve(value)
                    yield from _files_of(path, with_folders=option in _FOLDERS)

    def _uses(self) -> list[Use]:
        executor = self.config.section(SimulationSection).executor
        uses = [*self.config.uses(), self.config.named("executor", executor)]
        return [use for use in uses if use.kind not in ("attention", "observer")]


@cache
def own_files() -> dict[Path, None]:
    """The Python files of Batchwright itself."""
    return dict.fromkeys(path.resolve() for name in _OWN for path in package_files(name))


def short_digest(paths: Iterable[Path]) -> str:
    """Twelve digits that change with any of the files."""
    return sha256("".join(_digests(paths)).encode()).hexdigest()[:12]


def _digests(paths: Iterable[Path]) -> list[str]:
    return sorted(map(file_digest, paths))


def _files_of(path: Path, *, with_folders: bool) -> list[Path]:
    if with_folders and path.is_dir():
        return [file for file in sorted(path.rglob("*")) if file.is_file()]
    return [path] if path.is_file() else []


def file_digest(path: Path) -> str:
    """Digest of a file's content; where it lies does not matter."""
    found = path.stat()
    return _digest(path, found.st_mtime_ns, found.st_size)


@cache
def _digest(path: Path, mtime_ns: int, size: int) -> str:  # noqa: ARG001 - a changed file is another
    return sha256(path.read_bytes()).hexdigest()
