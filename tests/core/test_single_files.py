"""Single-file plugins import what lies beside them, and nothing else changes."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from batchwright.plugin_manager import PluginManager

PLUGIN = """
import helper
from helper import NAME as name_of
import lib.inner
import lib.inner as inner
from batchwright.plugin import SchedulingPolicy, hookimpl

class Mine(SchedulingPolicy):
    name = helper.NAME
    inner = (lib.inner.VALUE, inner.VALUE, name_of)

    def key(self, request):
        import late
        return late.VALUE

@hookimpl
def batchwright_register_policy():
    return [Mine]
"""


def folder(path: Path, name: str) -> Path:
    (path / "lib").mkdir(parents=True)
    (path / "helper.py").write_text(f"import late\nNAME = {name!r}\nclass Data: ...\n")
    (path / "late.py").write_text(f"VALUE = {len(name)}\n")
    (path / "lib" / "__init__.py").write_text("")
    (path / "lib" / "inner.py").write_text(
        "import late\nfrom . import __name__ as up\nVALUE = late.VALUE\n"
    )
    (path / "plugin.py").write_text(PLUGIN)
    return path / "plugin.py"


def test_neighbours_are_found_and_those_of_two_folders_stay_apart(tmp_path: Path) -> None:
    before = list(sys.path)
    files = [folder(tmp_path / name, name) for name in ("one", "three")]
    manager = PluginManager.discover(files, defaults=())
    for name, size in (("one", 3), ("three", 5)):
        cls = manager.find("policy", name).cls
        assert cls.inner == (size, size, name)
        assert cls.key(None, None) == size
    assert sys.path == before
    assert not {"helper", "late", "lib"} & {*sys.modules}


def test_classes_of_neighbours_are_pickled_and_repeated_loads_share_them(tmp_path: Path) -> None:
    file = folder(tmp_path, "mine")
    first = PluginManager.discover([file], defaults=()).find("policy", "mine")
    data = sys.modules[first.module].helper.Data()
    again = PluginManager.discover([file], defaults=()).find("policy", "mine")
    assert type(pickle.loads(pickle.dumps(data))) is sys.modules[again.module].helper.Data


def test_a_neighbour_that_fails_is_the_plugins_fault(tmp_path: Path) -> None:
    file = folder(tmp_path, "mine")
    (tmp_path / "helper.py").write_text("1 / 0\n")
    (fault,) = PluginManager.discover([file], defaults=(), refuse_broken=False).broken
    assert "cannot be imported: ZeroDivisionError: division by zero" in fault.message
    assert f"({tmp_path / 'helper.py'}, line 1)" in fault.message


@pytest.mark.parametrize("name", ["json", "batchwright"])
def test_a_neighbour_never_stands_for_the_standard_library(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise ValueError('wrong one')\n")
    (tmp_path / "plugin.py").write_text(
        f"import {name}\n"
        + PLUGIN.split("inner\n")[-1]
        .replace("helper.NAME", "'x'")
        .replace("(lib.inner.VALUE, inner.VALUE, name_of)", "0")
    )
    assert PluginManager.discover([tmp_path / "plugin.py"], defaults=()).names("policy") == ["x"]
