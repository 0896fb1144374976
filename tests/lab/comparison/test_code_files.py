"""Files that a file depends on: imports at its top, in functions, from packages and neighbours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchwright_lab.comparison.code_files import code_files, is_installed


def names(folder: Path, *roots: str) -> list[str]:
    found = code_files([folder / root for root in roots])
    return [str(path.relative_to(folder)) for path in found]


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)


def test_imports_are_followed_wherever_they_stand(tmp_path: Path) -> None:
    write(
        tmp_path,
        top="import json, attrs\nfrom beside import f\n\ndef g():\n    import lazy",
        beside="import importlib\nm = importlib.import_module('named')",
        lazy="import top",
        named="broken (",
        other="",
    )
    assert names(tmp_path, "top.py") == ["beside.py", "lazy.py", "named.py", "top.py"]


def test_packages_are_followed_to_the_modules_that_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their place on the path, by relative imports, and with their own ``__init__``."""
    write(
        tmp_path,
        plugin__policy="from kit_abc.near import one",
        lib__kit_abc__near="from . import far\nfrom .deep.er import x",
        lib__kit_abc__far="",
        lib__kit_abc__deep__er="from ..side import y",
        lib__kit_abc__side="",
        lib__kit_abc__unused="",
    )
    (tmp_path / "lib/kit_abc/__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    kit = ["__init__.py", "deep/er.py", "far.py", "near.py", "side.py"]
    assert names(tmp_path, "plugin/policy.py") == [
        *(f"lib/kit_abc/{name}" for name in kit),
        "plugin/policy.py",
    ]


def test_distributions_and_the_library_are_installed(tmp_path: Path) -> None:
    assert is_installed(Path(pytest.__file__))
    assert is_installed(Path(json.__file__))
    assert not is_installed(tmp_path / "mine.py")
