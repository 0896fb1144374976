"""The output of ``batchwright new``, as its users get it: built, installed, tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright.config import LIST_KINDS, SELECTORS
from batchwright_cli.commands.new import NewCommand
from batchwright_cli.scaffold.scaffold import KINDS, Scaffold

pytestmark = [pytest.mark.install, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
NEEDS_MORE = {"attention": "torch"}
"""Kinds whose tests need what a light environment lacks."""


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A distribution of each kind."""
    folder = tmp_path_factory.mktemp("new")
    for kind in KINDS:
        arguments = [kind, f"my-{kind}", "--output", str(folder / kind)]
        result = CliRunner().invoke(NewCommand().build(), arguments)
        assert result.exit_code == 0, result.output
    return {kind: folder / kind for kind in KINDS}


@pytest.fixture(scope="module")
def environment(make_environment: Any, projects: dict[str, Path]) -> Path:
    """All of them installed beside Batchwright, in one environment."""
    bin_folder: Path = make_environment(ROOT, *projects.values(), tools=["pytest"])
    return bin_folder


def test_all_are_listed(environment: Path, tmp_path: Path, run: Any) -> None:
    listed = json.loads(run(environment / "batchwright", "plugins", "--json", cwd=tmp_path))
    assert listed["broken"] == []
    found = {(c["kind"], c["name"], c["distribution"]) for c in listed["components"]}
    assert found >= {(kind, f"my-{kind}", f"batchwright-my-{kind}") for kind in KINDS}


def test_light_environment_writes_them(environment: Path, tmp_path: Path, run: Any) -> None:
    """The wheel holds the templates, and no extra is needed."""
    for kind in KINDS:
        run(environment / "batchwright", "new", kind, f"other-{kind}", cwd=tmp_path)
        source = tmp_path / f"batchwright-other-{kind}/src/batchwright_other_{kind}/__init__.py"
        assert source.read_text() == Scaffold(kind, f"other-{kind}").source()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NEEDS_MORE])
def test_its_own_tests_pass(
    kind: str, environment: Path, projects: dict[str, Path], tmp_path: Path, run: Any
) -> None:
    command = (environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    said = run(*command, "--rootdir", projects[kind], projects[kind] / "tests", cwd=tmp_path)
    assert " passed" in said


@pytest.mark.parametrize("kind", NEEDS_MORE)
def test_its_own_tests_pass_with_what_it_declares(kind: str, projects: dict[str, Path]) -> None:
    """In the environment of the tests: what the component needs is too large to be copied."""
    folder = projects[kind]
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert any(text.startswith(NEEDS_MORE[kind]) for text in project["dependencies"])
    paths = [ROOT / "core", ROOT / "plugins", folder / "src"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_pytest_finds_the_suite_by_name(environment: Path, tmp_path: Path, run: Any) -> None:
    """Through the entry point of the installed distribution."""
    command = (environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert " passed" in run(*command, "--batchwright", "policy.my-policy", cwd=tmp_path)


def test_toml_selects_them(environment: Path, tmp_path: Path, run: Any) -> None:
    chosen = [f"{option} = 'my-{kind}'" for kind, option in SELECTORS.items()]
    lists = [f'[[{kind}]]\nuse = "my-{kind}"' for kind in LIST_KINDS]
    (tmp_path / "run.toml").write_text("\n".join([*chosen, *lists]))
    said = run(environment / "batchwright", "config", "check", "run.toml", cwd=tmp_path)
    assert "valid" in said


def test_command_is_there(environment: Path, tmp_path: Path, run: Any) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "abc"}\n{"prompt": "de"}\n')
    said = run(environment / "batchwright", "my-command", "prompts.jsonl", cwd=tmp_path)
    assert said == "2 prompts, 5 characters\n"
