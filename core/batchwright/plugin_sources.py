"""Sources of plugins: the table of defaults, entry points, files, objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from importlib_metadata import PackageNotFoundError, distributions
from importlib_metadata import distribution as installed

from batchwright.exceptions import OUTSIDE, PluginError
from batchwright.hookspecs import PROJECT
from batchwright.registration import Origin
from batchwright.single_files import load_file, module_name
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
        origin = Origin(plugin=path.stem, module=module_name(path), path=path, explicit=True)
        yield origin, partial(load_file, path)
    for number, holder in enumerate(objects):
        name = getattr(holder, "__name__", f"{type(holder).__name__}-{number}")
        yield Origin(plugin=name, module=name, explicit=True), partial(_identity, holder)


def _identity(plugin: object) -> object:
    return plugin


def _entry_points() -> Iterator[Source]:
    """Entry points by distribution and name; then distributions whose metadata is broken."""
    found: dict[tuple[str, str, str], Source] = {}
    broken: list[Source] = []
    for distribution in distributions():
        try:
            if _announces(distribution):
                sources = _announced(distribution)
                found |= {(o.distribution, o.plugin, o.module): (o, load) for o, load in sources}
        except OUTSIDE:
            raise
        except BaseException as error:
            broken.append(_broken(distribution, error))
    yield from (found[key] for key in sorted(found))
    yield from broken


def _announces(distribution: Any) -> bool:
    """Return True if a distribution has entry points of ours, as far as its text can be read."""
    try:
        text = distribution.read_text("entry_points.txt") or ""
    except UnicodeDecodeError as error:
        return f"[{PROJECT}]".encode() in error.object
    return f"[{PROJECT}]" in text


def _announced(distribution: Any) -> Iterator[Source]:
    """Entry points of ours; none if the distribution is installed earlier on ``sys.path``, too.

    Raises:
        Exception: Something about its metadata is broken.
    """
    points = distribution.entry_points.select(group=PROJECT)
    name, version = distribution.metadata.get("Name"), distribution.metadata.get("Version", "")
    if not name:
        raise ValueError("METADATA has no Name")
    try:
        first = installed(name)
    except PackageNotFoundError as error:
        problem = f"METADATA has the Name {name!r}, which is not that of its folder"
        raise ValueError(problem) from error
    if str(first.locate_file("")) == str(distribution.locate_file("")):
        for point in points:
            plugin, module = point.name, point.value
            yield (
                Origin(plugin=plugin, module=module, distribution=name, version=version),
                point.load,
            )


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
