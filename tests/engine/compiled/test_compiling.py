"""Compiled functions and the files that keep them."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import pytest

from batchwright_engine.compiled import compiling
from batchwright_engine.compiled.compiling import compiled, compiled_work

SOURCE = """
from batchwright_engine.compiled.compiling import compiled

@compiled
def twice(x):
    return 2 * x
"""


def module(folder: Path) -> ModuleType:
    """Imports the source above anew, as another process would."""
    path = folder / "doubled.py"
    if not path.exists():
        path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("doubled", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("__pycache__/*.nbc"))


def num_hits(made: ModuleType) -> int:
    return sum(made.twice.stats.cache_hits.values())


def test_code_is_kept_for_later_processes(tmp_path: Path) -> None:
    """One file; the second import reads it."""
    first = module(tmp_path)
    assert first.twice(21) == 42
    assert len(kept(tmp_path)) == 1
    second = module(tmp_path)
    assert second.twice(4) == 8
    assert (num_hits(first), num_hits(second)) == (0, 1)


def test_code_is_made_anew_when_what_it_is_made_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functions of this folder are compiled into others, in files that numba watches not."""
    module(tmp_path).twice(21)
    monkeypatch.setattr(compiling, "_sources", lambda: 7)
    changed = module(tmp_path)
    changed.twice(21)
    assert num_hits(changed) == 0
    assert len(kept(tmp_path)) == 2
    assert "twice_00000007" in kept(tmp_path)[0].name


def make_work(number: int) -> Any:
    """Work that sets the first of its words."""

    def put(words: Any, part: int) -> None:
        words[0] = number + part

    return compiled_work(put, variant=f"_{number}")


def done(work: Any, part: int) -> int:
    words = (ctypes.c_int64 * 1)()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(work.address)(words, part)
    return words[0]


def test_variants_have_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that was made for one model's heads is never taken for another's."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert [done(make_work(1), 2), done(make_work(5), 2)] == [3, 7]
    names = sorted(path.name.partition(".put_")[2][0] for path in tmp_path.rglob("*.nbi"))
    assert names == ["1", "5"]


def test_work_is_kept_for_later_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And made anew if its file broke."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert [make_work(3).cache_hits, make_work(3).cache_hits] == [0, 1]
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(b"")
    mended = make_work(3)
    assert (mended.cache_hits, done(mended, 1), make_work(3).cache_hits) == (0, 4, 1)


def test_work_is_made_anew_when_what_it_is_made_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own source may be the same."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    make_work(3)
    monkeypatch.setattr(compiling, "_sources", lambda: 7)
    assert [make_work(3).cache_hits, make_work(3).cache_hits] == [0, 1]


@pytest.mark.parametrize("kind", ["nbc", "nbi"])
def test_a_broken_file_is_written_anew(kind: str, tmp_path: Path) -> None:
    """As a machine may leave it that lost its power."""
    module(tmp_path).twice(21)
    (path,) = tmp_path.glob(f"__pycache__/*.{kind}")
    path.write_bytes(b"")
    mended, after = module(tmp_path), module(tmp_path)
    assert mended.twice(21) == 42
    assert after.twice(21) == 42
    assert (num_hits(mended), num_hits(after)) == (0, 1)


def test_code_for_other_types_is_not_taken(tmp_path: Path) -> None:
    """As two processes may leave it that wrote the same index at once."""
    first = module(tmp_path)
    assert (first.twice(21), first.twice(1.5)) == (42, 3.0)
    whole, fraction = kept(tmp_path)
    fraction.write_bytes(whole.read_bytes())
    again = module(tmp_path)
    assert again.twice(1.5) == 3.0
    assert (again.twice.signatures, num_hits(again)) == ([(numba.float64,)], 0)


def test_a_full_disk_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that cannot be stored is compiled for the process."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    made = module(tmp_path)
    monkeypatch.setattr(made.twice._cache._cache_file, "save", refuse)
    assert made.twice(21) == 42
    assert kept(tmp_path) == []


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_person_is_told_once_why_it_takes_long(
    is_terminal: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Files and other programs get no message; nor does a terminal if the code was kept."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    for numbers in ((1, 2), (1, 2)):
        compiling._announce.cache_clear()
        monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
        for number in numbers:
            make_work(number)
    told = "compiling for this CPU, which takes some seconds, once\n"
    assert capsys.readouterr().err == (told if is_terminal else "")


def test_without_a_folder_functions_are_compiled_for_the_process() -> None:
    """numba refuses to keep what has no file; it is compiled all the same."""
    spaces: dict[str, Any] = {}
    exec("def twice(x):\n    return 2 * x", spaces)
    assert compiled(spaces["twice"])(21) == 42
    exec("def put(words, part):\n    words[0] = part", spaces)
    assert done(compiled_work(spaces["put"]), 6) == 6


def test_without_a_compiler_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NUMBA_DISABLE_JIT numba gives the function back as it is."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)

    def twice(x: int) -> int:
        return 2 * x

    assert compiled(twice) is twice
