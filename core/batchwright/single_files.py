"""Plugins of a single file, and their imports from the folder that the file is in.

``sys.path`` stays as it is. A folder is a package under a name of its own, and the plugin and
the files beside it are its modules: equal names in two folders are two modules, and no other
code sees either.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from hashlib import blake2b
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from batchwright.exceptions import PluginError

__all__ = ["load_file", "module_name"]

_PREFIX: Final = "batchwright_folder_"


def module_name(path: Path) -> str:
    """Name of the module that a file becomes."""
    return f"{_PREFIX}{blake2b(str(path.parent).encode(), digest_size=8).hexdigest()}.{path.stem}"


def load_file(path: Path) -> ModuleType:
    """Run a file, anew at each call, as a module that can import the files beside it.

    Raises:
        PluginError: It is no Python file.
    """
    if not path.is_file() or path.suffix != ".py":
        found = "is not a Python file" if path.exists() else "does not exist"
        expected = "expected a .py file (in plugins.load: relative to the folder of the TOML file)"
        raise PluginError(f"{path} {found}; {expected}")
    name = module_name(path)
    package = ModuleType(name.partition(".")[0])
    package.__path__ = [str(path.parent)]
    sys.modules.setdefault(package.__name__, package)
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    loader = _Loader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)  # attrs and pickle look classes up there
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Loader(SourceFileLoader):
    """Run a module whose import statements find the files beside the plugin first.

    Modules of the standard library and of Batchwright keep their names. An import that is
    no statement (``importlib.import_module``) finds no such files.
    """

    def exec_module(self, module: ModuleType) -> None:
        package = module.__name__.partition(".")[0]
        (folder,) = map(Path, sys.modules[package].__path__)

        def load(
            name: str,
            globals: Any = None,  # noqa: A002 (the names are those of __import__)
            locals: Any = None,  # noqa: A002
            fromlist: Any = (),
            level: int = 0,
        ) -> Any:
            top = name.partition(".")[0]
            if level or not _is_in(folder, top):
                return builtins.__import__(name, globals, locals, fromlist, level)
            found = builtins.__import__(f"{package}.{name}", globals, locals, fromlist, 0)
            return found if fromlist else sys.modules[f"{package}.{top}"]

        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": load}
        super().exec_module(module)


class _Finder(PathFinder):
    """Find modules below the packages that stand for folders, and no others."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = super().find_spec(fullname, path, target) if fullname.startswith(_PREFIX) else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def _is_in(folder: Path, name: str) -> bool:
    if name in sys.stdlib_module_names or name.partition("_")[0] == "batchwright":
        return False
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
