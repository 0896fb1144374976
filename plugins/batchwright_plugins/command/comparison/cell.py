"""A cell of the grid: one policy, one set of options, one rate, one seed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from batchwright.config import Config, Use
from batchwright.plugin_manager import PluginManager
from batchwright_plugins.command.defaults import with_component_defaults
from batchwright_plugins.command.rendering import render_config

__all__ = ["Cell"]

_UNSAFE: Final = re.compile(r"[^\w.+=-]+")
_FORMAT: Final = 1
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
        checked: Whether every invariant is checked at every step.
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
        """Where it stands in the grid."""
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
            "files": [file_digest(path) for path in sorted(self._files(plugins))],
        }
        digest = sha256(json.dumps(identity).encode()).hexdigest()[:16]
        return f"{_UNSAFE.sub('_', self.label.replace(', ', '_'))[:80]}-{digest}.json"

    def _files(self, plugins: PluginManager) -> Iterator[Path]:
        """The files that its components come from, and those that their options name."""
        yield from _package_files("batchwright")
        for use in self._uses():
            found = plugins.find(use.kind, use.name)
            if found.path is not None:
                yield found.path
            else:
                yield from _package_files(found.cls.__module__.partition(".")[0])
            named = use.options.get("path")
            if isinstance(named, str) and named:
                yield from _files_of(self.config.resolve(named))

    def _uses(self) -> list[Use]:
        uses = [*self.config.uses(), self.config.named("executor", self.config.simulation.executor)]
        return [use for use in uses if use.kind not in ("attention", "observer")]


@cache
def _package_files(package: str) -> tuple[Path, ...]:
    """The Python files of an installed package, or module."""
    spec = find_spec(package)
    roots = list(spec.submodule_search_locations or ()) if spec else []
    if roots:
        return tuple(path for root in roots for path in sorted(Path(root).rglob("*.py")))
    return (Path(spec.origin),) if spec and spec.origin else ()


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in sorted(path.rglob("*")) if file.is_file()]
    return [path] if path.is_file() else []


def file_digest(path: Path) -> str:
    """Digest of a file's content; where it lies does not matter."""
    found = path.stat()
    return _digest(path, found.st_mtime_ns, found.st_size)


@cache
def _digest(path: Path, mtime_ns: int, size: int) -> str:  # noqa: ARG001 - a changed file is another
    return sha256(path.read_bytes()).hexdigest()
