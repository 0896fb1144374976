"""Sources of plugins: the table of defaults, entry points, files, objects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from importlib_metadata import EntryPoint, PackageNotFoundError, distributions
from importlib_metadata import distribution as installed

from batchwright.exceptions import OUTSIDE, PluginError
from batchwright.hookspecs import PROJECT
from batchwright.neighbours import see_neighbours
from batchwright.registration import Origin
from batchwright.version import VERSION

Source = tuple[Origin, Callable[[], object]]
"""A plugin that is not imported yet; the function imports it and returns what holds its hooks."""


def find_sources(
    defaults: Iterable[str], files: Iterable[Path], objects: Iterable[object]
) -> Iterator[Source]:
    """Find plugins, in the order in which they are registered; imports nothing.

    Args:
        defaults: Modules that ship with Batchwright, by their dotted names. After them
            come the entry points of installed distributions in the group ``batchwright``.
        files: Single files (``plugins.load``); one that is named twice is loaded once.
        objects: Modules or other objects with hooks, given by an embedding program.
    """
    for module in defaults:
        plugin = module.rpartition(".")[2]
        origin = Origin(plugin=plugin, module=module, distribution=PROJECT, version=VERSION)
        yield origin, partial(import_module, module)
    yield from _entry_points()
    for path in dict.fromkeys(path.resolve() for path in files):
        digest = blake2b(str(path).encode(), digest_size=4).hexdigest()
        module = f"{PROJECT}_file_{path.stem}_{digest}"
        origin = Origin(plugin=path.stem, module=module, path=path, explicit=True)
        yield origin, partial(_load_file, module, path)
    for number, holder in enumerate(objects):
        name = getattr(holder, "__name__", f"{type(holder).__name__}-{number}")
        yield Origin(plugin=name, module=name, explicit=True), partial(_identity, holder)


def _entry_points() -> Iterator[Source]:
    """Entry points by distribution and name; then distributions whose metadata is broken."""
    found: list[tuple[str, str, EntryPoint, str]] = []
    broken: list[Source] = []
    seen: set[str] = set()
    for distribution in distributions():
        try:
            if not _announces(distribution):
                continue
            name, version, points = _read(distribution)
            is_new = name not in seen and _is_first(distribution, name)
        except OUTSIDE:
            raise
        except BaseException as error:
            broken.append(_broken(distribution, error))
            continue
        if is_new:
            found += [(name, point.name, point, version) for point in points]
        seen.add(name)
    for name, plugin, point, version in sorted(found, key=lambda entry: entry[:2]):
        origin = Origin(plugin=plugin, module=point.value, distribution=name, version=version)
        yield origin, point.load
    yield from broken


def _announces(distribution: Any) -> bool:
    """Return True if a distribution has entry points of ours, as far as its text can be read."""
    try:
        text = distribution.read_text("entry_points.txt") or ""
    except UnicodeDecodeError as error:
        return f"[{PROJECT}]".encode() in error.object
    return f"[{PROJECT}]" in text


def _read(distribution: Any) -> tuple[str, str, list[EntryPoint]]:
    """Name, version and entry points of ours.

    Raises:
        Exception: Something about its metadata is broken.
    """
    points = list(distribution.entry_points.select(group=PROJECT))
    name: str | None = distribution.metadata.get("Name")
    if not name:
        raise ValueError("METADATA has no Name")
    return name, str(distribution.metadata.get("Version", "")), points


def _is_first(distribution: Any, name: str) -> bool:
    """Return True if no other installation of it comes earlier on ``sys.path``.

    Raises:
        ValueError: Its folder has another name.
    """
    try:
        first = installed(name)
    except PackageNotFoundError as error:
        problem = f"METADATA has the Name {name!r}, which is not that of its folder"
        raise ValueError(problem) from error
    return str(first.locate_file("")) == str(distribution.locate_file(""))


def _broken(distribution: Any, error: BaseException) -> Source:
    """A source whose import says what is wrong with its metadata."""
    folder = Path(str(getattr(distribution, "_path", distribution.locate_file(""))))
    stem = folder.name.removesuffix(".dist-info").removesuffix(".egg-info")
    name, _, version = stem.partition("-")
    what = f"its metadata cannot be read: {type(error).__name__}: {error}"

    def fail() -> object:
        raise PluginError(f"{what}; install it anew, or delete that folder") from error

    origin = Origin(plugin=name, module=stem, distribution=name, version=version, path=folder)
    return origin, fail


def _identity(plugin: object) -> object:
    return plugin


def _load_file(name: str, path: Path) -> object:
    """Import a file under a name of its own, so that equal stems do not collide."""
    if not path.is_file() or path.suffix != ".py":
        found = "is not a Python file" if path.exists() else "does not exist"
        expected = "expected a .py file (in plugins.load: relative to the folder of the TOML file)"
        raise PluginError(f"{path} {found}; {expected}")
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)  # attrs and pickle look classes up there
    see_neighbours(module, path.parent)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
