"""The Python files that a file depends on, as far as no distribution installed them."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["code_files", "is_installed", "loaded_files", "package_files"]

_SUFFIXES: Final = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)
_SITES: Final = ("site-packages", "dist-packages")
_LIBRARY: Final = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
_IMPORTERS: Final = ("import_module", "__import__")


def code_files(roots: Iterable[Path], known: Container[Path] = ()) -> list[Path]:
    """The files, and all that they import, directly or not, at their top or in a function.

    Modules of installed distributions are left out; those of an editable installation are
    not. An import whose name is computed is not found: see ``loaded_files``.

    Args:
        roots: Python files.
        known: Files that are left out, with all that they alone import.
    """
    found: dict[Path, None] = {}
    waiting = [path.resolve() for path in roots]
    while waiting:
        path = waiting.pop()
        if path not in found and path not in known:
            found[path] = None
            waiting += [file.resolve() for file in _imported(path) if not is_installed(file)]
    return sorted(found)


def package_files(package: str) -> list[Path]:
    """The Python files of a package or module that can be imported, by its name."""
    spec = _spec(package)
    roots = list(spec.submodule_search_locations or ()) if spec else []
    if roots:
        return [path for root in roots for path in sorted(Path(root).rglob("*.py"))]
    return [Path(spec.origin)] if spec and spec.origin and spec.has_location else []


def loaded_files() -> set[Path]:
    """Files of all modules that are loaded now and that no distribution installed."""
    modules = [(name, getattr(module, "__file__", None)) for name, module in sys.modules.items()]
    files = [Path(file) for name, file in modules if file and name not in _MAIN]
    return {file.resolve() for file in files if file.is_file() and not is_installed(file)}


_MAIN: Final = ("__main__", "__mp_main__")


def is_installed(path: Path) -> bool:
    """Tell files of installed distributions, and of Python, from others."""
    if any(site in path.parts for site in _SITES):
        return True
    return any(path.is_relative_to(folder) for folder in _LIBRARY)


@frozen
class _Import:
    """An import statement.

    Args:
        level: Folders up from the file's own, plus one; 0: absolute.
        module: Parts of the module's name.
        names: Names that are taken from it, each a module or not.
    """

    level: int
    module: tuple[str, ...]
    names: tuple[str, ...] = ()


def _imported(path: Path) -> Iterator[Path]:
    """Files of the modules that a file imports, and of their packages."""
    if path.suffix not in SOURCE_SUFFIXES or not path.is_file():
        return
    found = path.stat()
    for statement in _imports(path, found.st_mtime_ns, found.st_size):
        parts = (*statement.module,)
        if statement.level:
            folder = path.parents[min(statement.level, len(path.parents)) - 1]
            yield from _walk([folder], parts, statement.names)
            continue
        yield from _walk([path.parent], parts, statement.names)  # a neighbour of the file
        spec = _spec(parts[0])
        if spec is None or not _is_foreign(spec):
            continue
        if spec.origin is not None and spec.has_location:
            yield Path(spec.origin)
        folders = [Path(place) for place in spec.submodule_search_locations or ()]
        yield from _walk(folders, parts[1:], statement.names)


def _walk(folders: Sequence[Path], parts: Sequence[str], names: Sequence[str]) -> Iterator[Path]:
    """Files of a module within folders, of the packages that it lies in, of what it holds."""
    for part in parts:
        file, folders = _member(folders, part)
        if file is not None:
            yield file
    for name in names:
        file, _ = _member(folders, name)
        if file is not None:
            yield file


def _member(folders: Sequence[Path], name: str) -> tuple[Path | None, list[Path]]:
    """The file of a module or package within folders, and the folders of its own members."""
    namespaces = []
    for folder in folders:
        package = folder / name
        if (package / "__init__.py").is_file():
            return package / "__init__.py", [package]
        for suffix in _SUFFIXES:
            if (file := folder / f"{name}{suffix}").is_file():
                return file, []
        if package.is_dir():
            namespaces.append(package)
    return None, namespaces


def _spec(package: str) -> ModuleSpec | None:
    """Find the place of a top-level package or module; None if there is none."""
    if package in sys.stdlib_module_names:
        return None
    try:
        return find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return None


def _is_foreign(spec: ModuleSpec) -> bool:
    """Return True if any of its places is outside installed distributions."""
    places = [*(spec.submodule_search_locations or ())]
    if spec.origin is not None and spec.has_location:
        places.append(spec.origin)
    return any(not is_installed(Path(place)) for place in places)


@cache
def _imports(path: Path, mtime_ns: int, size: int) -> tuple[_Import, ...]:  # noqa: ARG001
    """The imports of a file, wherever in it; none if it cannot be read as Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(dict.fromkeys(found for node in ast.walk(tree) for found in _of(node)))


def _of(node: ast.AST) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield _Import(0, tuple(alias.name.split(".")))
    elif isinstance(node, ast.ImportFrom):
        module = tuple(node.module.split(".")) if node.module else ()
        yield _Import(node.level, module, tuple(alias.name for alias in node.names))
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        function, name = node.func, node.args[0].value
        called = getattr(function, "attr", getattr(function, "id", ""))
        if called in _IMPORTERS and isinstance(name, str) and name.strip("."):
            level = len(name) - len(name.lstrip("."))
            yield _Import(level, tuple(name.strip(".").split(".")))
