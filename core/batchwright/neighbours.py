"""Imports of a single-file plugin from its own folder.

``sys.path`` stays as it is. A neighbour is a module under a name of its folder's own, so
that equal names in two folders are two modules, and no other code sees either.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

__all__ = ["see_neighbours"]

_PREFIX: Final = "batchwright_folder_"


def see_neighbours(module: ModuleType, folder: Path) -> None:
    """Let the imports of a module that is not run yet find files beside it.

    Modules of the standard library and of Batchwright keep their names. An import that is
    no statement (``importlib.import_module``) finds no neighbours.

    Args:
        module: The module.
        folder: Its folder.
    """
    package = _package(folder)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _importer(package, folder)}


def _package(folder: Path) -> str:
    """Name of the package that stands for a folder; made at the first call."""
    name = _PREFIX + blake2b(str(folder).encode(), digest_size=8).hexdigest()
    if name not in sys.modules:
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [str(folder)]
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    return name


def _importer(package: str, folder: Path) -> Callable[..., Any]:
    """Return a function that stands for ``__import__`` in modules of a folder."""

    def find(
        name: str,
        globals: Any = None,  # noqa: A002 (the names are those of __import__)
        locals: Any = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if level or not _is_neighbour(top, folder):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{package}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{package}.{top}"]

    return find


def _is_neighbour(name: str, folder: Path) -> bool:
    if name in sys.stdlib_module_names or name.partition("_")[0] == "batchwright":
        return False
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


class _Finder(MetaPathFinder):
    """Find modules below the packages that stand for folders, and no others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith(_PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Load a neighbour, which sees the same neighbours."""

    def exec_module(self, module: ModuleType) -> None:
        (folder,) = sys.modules[module.__name__.partition(".")[0]].__path__
        see_neighbours(module, Path(folder))
        super().exec_module(module)
