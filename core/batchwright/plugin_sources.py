"""Where plugins are found: the table of defaults, entry points, files, objects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from attrs import frozen
from importlib_metadata import entry_points

from batchwright.exceptions import PluginError
from batchwright.hookspecs import PROJECT
from batchwright.registration import Origin
from batchwright.version import VERSION


@frozen
class PluginSource:
    """A plugin that has not been imported yet.

    Args:
        origin: Where it comes from.
        names: What ``plugins.disable`` may call it, its distribution included.
        load: Imports it and returns the object that holds its hooks.
    """

    origin: Origin
    names: tuple[str, ...]
    load: Callable[[], object]


def default_sources(modules: Iterable[str]) -> Iterator[PluginSource]:
    """Sources for modules that ship with Batchwright.

    Args:
        modules: Dotted names.
    """
    for module in modules:
        plugin = module.rpartition(".")[2]
        origin = Origin(plugin=plugin, module=module, distribution=PROJECT, version=VERSION)
        yield PluginSource(origin, (plugin, module, PROJECT), partial(import_module, module))


def entry_point_sources() -> Iterator[PluginSource]:
    """Sources for what installed distributions announce in the group ``batchwright``.

    Reads their metadata, imports nothing. In the order of their distributions' names.
    """
    found = [
        (point.dist.name if point.dist else "", point) for point in entry_points(group=PROJECT)
    ]
    for distribution, point in sorted(found, key=lambda pair: (pair[0], pair[1].name)):
        origin = Origin(
            plugin=point.name,
            module=point.value,
            distribution=distribution,
            version=point.dist.version if point.dist else "",
        )
        yield PluginSource(origin, tuple(filter(None, (point.name, distribution))), point.load)


def file_sources(paths: Iterable[Path]) -> Iterator[PluginSource]:
    """Sources for single files, named in ``plugins.load``.

    Args:
        paths: Python files; one that is named twice is loaded once.
    """
    for path in dict.fromkeys(path.resolve() for path in paths):
        digest = blake2b(str(path).encode(), digest_size=4).hexdigest()
        module = f"{PROJECT}_file_{path.stem}_{digest}"
        origin = Origin(plugin=path.stem, module=module, path=path, explicit=True)
        yield PluginSource(origin, (path.stem,), partial(_load_file, module, path))


def _load_file(name: str, path: Path) -> ModuleType:
    """Import a file under a name of its own, so that equal stems do not collide."""
    if not path.is_file() or path.suffix != ".py":
        found = "is not a Python file" if path.exists() else "does not exist"
        raise PluginError(f"{path} {found}; plugins.load expects the path of a .py file")
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be imported")
    module = module_from_spec(spec)
    sys.modules[name] = module  # attrs, dataclasses and pickle look classes up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def object_sources(objects: Iterable[object]) -> Iterator[PluginSource]:
    """Sources for modules or other objects with hooks, given by an embedding program.

    Args:
        objects: What holds the hooks.
    """
    for number, plugin in enumerate(objects):
        name = getattr(plugin, "__name__", f"{type(plugin).__name__}-{number}")
        origin = Origin(plugin=name, module=name, explicit=True)
        yield PluginSource(origin, (name,), partial(_identity, plugin))


def _identity(plugin: object) -> object:
    return plugin
