"""Tiers of tests, their catalogue, and the record of nightly runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "nightly" / "record.py"
TESTS = """
import pytest

def test_fast(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.nightly
@pytest.mark.parametrize("number", [1, 2])
def test_nightly(number): assert number == 1
"""
PROGRAM = """
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("record", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
raise SystemExit(module.main(["-p", "no:cacheprovider"], pathlib.Path("results.json")))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = settings["tool"]["pytest"]["ini_options"]["markers"]
    listed = "\n".join(f"    {marker}" for marker in markers)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{listed}\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def test_a_nightly_run_is_written_down(folder: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(RECORD)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads((folder / "results.json").read_text())
    assert (found["tests"], found["passed"]) == (2, 1)
    assert {name: test["outcome"] for name, test in found["by_test"].items()} == {
        "test_it.py::test_nightly[1]": "passed",
        "test_it.py::test_nightly[2]": "failed",
    }


@pytest.mark.parametrize(("target", "chosen"), [("pytest", "fast"), ("test-slow", "slow")])
def test_a_target_runs_its_tier_alone(folder: Path, target: str, chosen: str) -> None:
    """The recipe of the Makefile, with this interpreter, on a test of each tier."""
    dry = ["make", "-n", target, "PYTEST_ARGS=--collect-only -q"]
    outside = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    recipe = subprocess.run(
        dry, cwd=ROOT, env=outside, capture_output=True, text=True, check=True
    ).stdout
    _, *arguments = shlex.split(recipe.splitlines()[-1])
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("test_it.py::")]
    assert found == [f"test_it.py::test_{chosen}"]


def test_the_catalogue_names_tests_that_exist() -> None:
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [WBEI]\d+ \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 40
    for row in rows:
        for path, names in re.findall(r"`(\S+\.py)`: ([^;]*)", row):
            source = (ROOT / "tests" / path).read_text(encoding="utf-8")
            for name in re.findall(r"`(\w+)`", names):
                assert f"def test_{name}(" in source, f"{path}: {name}"
