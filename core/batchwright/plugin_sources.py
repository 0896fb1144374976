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
    found = [(getattr(p.dist, "name", ""), p.name, p) for p in entry_points(group=PROJECT)]
    for distribution, name, point in sorted(found, key=lambda entry: entry[:2]):
        version = getattr(point.dist, "version", "")
        origin = Origin(plugin=name, module=point.value, distribution=distribution, version=version)
        yield origin, point.load


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
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
