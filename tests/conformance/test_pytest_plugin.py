"""``pytest --batchwright``: the suite on a file, or on what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "batchwright_plugins.pytest_batchwright"
GOOD = '''
from batchwright.plugin import SchedulingPolicy, hookimpl


class Longest(SchedulingPolicy):
    """Longest prompt first."""

    name = "longest"

    def key(self, request):
        return -request.num_prompt_tokens


@hookimpl
def batchwright_register_policy():
    return [Longest]
'''


def run_pytest(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, with the plugin whether or not it is installed."""
    installed = any(p.name == "batchwright" for p in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", PLUGIN]
    paths = os.pathsep.join([str(ROOT / "core"), str(ROOT / "plugins")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )


def test_file_is_tested_where_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "my_policy.py").write_text(GOOD)

    done = run_pytest("--batchwright", "my=./my_policy.py", "-v", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    where = "my_policy.py::Test_my_policy_longest::test_keys_are_numbers_and_stable PASSED"
    assert where in done.stdout


def test_failure_names_the_promise(tmp_path: Path) -> None:
    bad = GOOD.replace("-request.num_prompt_tokens", "self.ctx.random.random()")
    (tmp_path / "my_policy.py").write_text(bad)

    done = run_pytest("--batchwright", "my_policy.py", "-k", "stable", cwd=tmp_path)

    assert done.returncode == 1
    assert "is not stable" in done.stdout
    assert "1 failed" in done.stdout


@pytest.mark.slow
def test_tests_beside_it_run_only_if_they_are_named(tmp_path: Path) -> None:
    """Neither those of the folder nor those of ``testpaths`` run by themselves."""
    (tmp_path / "my_policy.py").write_text(GOOD)
    (tmp_path / "test_beside.py").write_text("def test_beside(): pass\n")
    chosen = ["--batchwright", "my_policy.py", "-k", "beside or docstring"]

    alone = run_pytest(*chosen, cwd=tmp_path)
    both = run_pytest(*chosen, "test_beside.py", cwd=tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = test_beside.py\n")
    still_alone = run_pytest(*chosen, cwd=tmp_path)

    assert "1 passed" in alone.stdout
    assert "2 passed" in both.stdout
    assert "1 passed" in still_alone.stdout


@pytest.mark.slow
def test_installed_component_is_tested_by_name(tmp_path: Path) -> None:
    done = run_pytest("--batchwright", "gate.full-need", "--batchwright", "lifo", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("fcsf", "no component 'fcsf' is installed. Did you mean 'fcfs'?"),
        ("missing.py", "missing.py does not exist"),
        ("empty.py", "has no hooks"),
    ],
)
def test_mistakes_are_said_in_one_line(what: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")

    done = run_pytest("--batchwright", what, cwd=tmp_path)

    assert done.returncode == 4
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_unused_it_imports_nothing_of_batchwright(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(
        dedent(
            """
            import sys

            def test_light():
                assert "batchwright_plugins.pytest_batchwright" in sys.modules
                assert "batchwright" not in sys.modules
            """
        )
    )

    done = run_pytest(cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
