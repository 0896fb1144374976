"""Where plugins are found: the table of defaults, entry points, files, objects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from importlib_metadata import entry_points

from batchwright.exceptions import PluginError
from batchwright.hookspecs import PROJECT
from batchwright.registration import Origin
from batchwright.version import VERSION

Source = tuple[Origin, Callable[[], object]]
"""A plugin that is not imported yet; the function imports it and returns what holds its hooks."""


def default_sources(modules: Iterable[str]) -> Iterator[Source]:
    """Modules that ship with Batchwright, by their dotted names."""
    for module in modules:
        plugin = module.rpartition(".")[2]
        origin = Origin(plugin=plugin, module=module, distribution=PROJECT, version=VERSION)
        yield origin, partial(import_module, module)


def entry_point_sources() -> Iterator[Source]:
    """What installed distributions announce in the group ``batchwright``, in their order.

    Reads their metadata, imports nothing.
    """
    found = [(getattr(p.dist, "name", ""), p.name, p) for p in entry_points(group=PROJECT)]
    for distribution, name, point in sorted(found, key=lambda entry: entry[:2]):
        version = getattr(point.dist, "version", "")
        origin = Origin(plugin=name, module=point.value, distribution=distribution, version=version)
        yield origin, point.load


def file_sources(paths: Iterable[Path]) -> Iterator[Source]:
    """Single files, named in ``plugins.load``; one that is named twice is loaded once."""
    for path in dict.fromkeys(path.resolve() for path in paths):
        digest = blake2b(str(path).encode(), digest_size=4).hexdigest()
        module = f"{PROJECT}_file_{path.stem}_{digest}"
        origin = Origin(plugin=path.stem, module=module, path=path, explicit=True)
        yield origin, partial(_load_file, module, path)


def object_sources(objects: Iterable[object]) -> Iterator[Source]:
    """Modules or other objects with hooks, given by an embedding program."""
    for number, plugin in enumerate(objects):
        name = getattr(plugin, "__name__", f"{type(plugin).__name__}-{number}")
        yield Origin(plugin=name, module=name, explicit=True), partial(_identity, plugin)


def _identity(plugin: object) -> object:
    return plugin


def _load_file(name: str, path: Path) -> object:
    """Import a file under a name of its own, so that equal stems do not collide."""
    if not path.is_file() or path.suffix != ".py":
        found = "is not a Python file" if path.exists() else "does not exist"
        raise PluginError(f"{path} {found}; plugins.load expects the path of a .py file")
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)  # attrs and pickle look classes up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
