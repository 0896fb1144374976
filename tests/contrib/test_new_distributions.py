"""The output of ``batchwright new``, as its users get it: built, installed, tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright_cli.commands.new import NewCommand
from batchwright_cli.scaffold.scaffold import KINDS

pytestmark = [pytest.mark.install, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_tests_pass(
    kind: str, environment: Path, projects: dict[str, Path], tmp_path: Path, run: Any
) -> None:
    command = (environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    said = run(*command, "--rootdir", projects[kind], projects[kind] / "tests", cwd=tmp_path)
    assert " passed" in said


def test_pytest_finds_the_suite_by_name(environment: Path, tmp_path: Path, run: Any) -> None:
    """Through the entry point of the installed distribution."""
    command = (environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert " passed" in run(*command, "--batchwright", "policy.my-policy", cwd=tmp_path)


def test_toml_selects_them(environment: Path, tmp_path: Path, run: Any) -> None:
    lists = [f'[[{kind}]]\nuse = "my-{kind}"' for kind in KINDS if kind not in ("policy", "victim")]
    chosen = '[scheduler]\npolicy = "my-policy"\nvictim = "my-victim"'
    (tmp_path / "run.toml").write_text("\n".join([chosen, *lists]))
    said = run(environment / "batchwright", "config", "check", "run.toml", cwd=tmp_path)
    assert "valid" in said
