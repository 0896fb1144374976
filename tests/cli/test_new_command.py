"""``batchwright new`` writes distributions that work as they are."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright.plugin_manager import PluginManager
from batchwright_cli.commands.new import NewCommand
from batchwright_cli.scaffold.scaffold import KINDS, Scaffold


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new(*arguments: str) -> Any:
    return CliRunner().invoke(NewCommand().build(), arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_distribution_is_complete_and_offers_its_component(kind: str) -> None:
    assert new(kind, "my-own").exit_code == 0

    folder = Path("batchwright-my-own")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "batchwright-my-own"
    assert project["entry-points"] == {"batchwright": {"my-own": "batchwright_my_own"}}
    assert "my-own" in (folder / "README.md").read_text()
    source = folder / "src" / "batchwright_my_own" / "__init__.py"
    plugins = PluginManager.discover([source])
    found = plugins.find(kind, "my-own")
    assert found.cls.__name__ == f"MyOwn{kind.capitalize()}"
    assert plugins.broken == []


@pytest.mark.parametrize("kind", KINDS)
def test_sources_are_clean(kind: str) -> None:
    """The output passes the linter and the formatter of this repository."""
    assert new(kind, "my-own").exit_code == 0
    command = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(Path(__file__).parents[2] / "pyproject.toml")]
    for arguments in (["check", "--ignore", "D,I001,TC002"], ["format", "--check"]):
        done = subprocess.run(
            [*command, *arguments, *settings, "batchwright-my-own"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("My", "lower-case"),
        ("a_b", "joined by '-'"),
        ("1st", "lower-case letter"),
        ("", "is no name"),
        ("-x", "Error"),
        ("../x", "is no name"),
        ("fcfs", "there is a policy 'fcfs' already"),
    ],
)
def test_bad_names_are_refused(name: str, said: str) -> None:
    result = new("policy", name)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", "").split())
    assert list(Path().iterdir()) == []


def test_existing_folder_is_left_alone() -> None:
    Path("there").mkdir()
    result = new("gate", "mine", "--output", "there")
    assert result.exit_code == 2
    assert "there exists" in result.output
    assert list(Path("there").iterdir()) == []


def test_output_names_the_folder() -> None:
    assert new("gate", "mine", "--output", "deep/folder").exit_code == 0
    assert Path("deep/folder/src/batchwright_mine/__init__.py").is_file()


def test_unknown_kind_lists_the_kinds() -> None:
    result = new("router", "mine")
    assert result.exit_code == 2
    assert "'policy'" in result.output


@pytest.mark.parametrize(
    ("kind", "name", "component"),
    [
        ("gate", "gate", "MyGate"),
        ("gate", "first-gate", "FirstGate"),
        ("policy", "two-words", "TwoWordsPolicy"),
    ],
)
def test_class_is_named_after_name_and_kind(kind: str, name: str, component: str) -> None:
    assert Scaffold(kind, name).component == component
