"""A few hundred cases of ``make fuzz`` for every reader, and what is no good answer to one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchwright import ConfigError

from .__main__ import files_of, run_case
from .targets import TARGETS, Target

ROOT = Path(__file__).resolve().parents[2]
CASES = 200


@pytest.fixture(scope="module")
def found() -> Any:
    """Return the results of some cases, in a process whose memory is bounded."""
    path = os.pathsep.join(str(ROOT / name) for name in ("tests", "core", "plugins"))
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--worker", "--cases", str(CASES)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [target.name for target in TARGETS])
def test_every_case_is_taken_or_refused_with_its_place(found: Any, name: str) -> None:
    result = found[name]
    assert result["failures"] == []
    assert result["accepted"] + result["refused"] == CASES
    assert min(result["accepted"], result["refused"]) > 0


def test_cases_follow_from_target_seed_and_number() -> None:
    for target in TARGETS[:6]:
        assert files_of(target, 0, 0) == target.files()
        assert files_of(target, 1, 7) == files_of(target, 1, 7)
        assert len({str(files_of(target, 0, case)) for case in range(20)}) > 10


def answer(problem: BaseException) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        raise problem

    return run


@pytest.mark.parametrize(
    ("problem", "end", "said"),
    [
        (KeyError("x"), "failed", "KeyError"),
        (RecursionError(), "failed", "RecursionError"),
        (ConfigError("is wrong"), "failed", "the file is not named: is wrong"),
        (ConfigError("wrong", source="a.csv"), "failed", "the line is not named: a.csv: wrong"),
        (ConfigError("\ud800", source="a.csv:1"), "failed", "the message cannot be written"),
        (ConfigError("wrong", source="a.csv:1"), "refused", "a.csv:1: wrong"),
        (ConfigError("holds no request", source="a.csv"), "refused", "a.csv: holds no request"),
    ],
)
def test_an_answer_that_does_not_say_where_is_none(
    tmp_path: Path, problem: Exception, end: str, said: str
) -> None:
    target = Target("a", lambda: {"a.csv": b"a,b\n"}, answer(problem))
    found = run_case(target, tmp_path, {"a.csv": b"a\n"})
    assert found[0] == end
    assert said in found[1]
