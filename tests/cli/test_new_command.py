"""``batchwright new`` writes distributions that work as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.plugin_manager import PluginManager
from batchwright.testing.conformance import CONFORMANCE
from batchwright_cli.commands.new import NewCommand
from batchwright_cli.scaffold.scaffold import KINDS, Scaffold

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "src/batchwright_my_own/__init__.py"
TEST = "tests/test_my_own.py"


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
    assert found.cls.__name__ == Scaffold(kind, "my-own").component
    assert plugins.broken == []


def test_every_kind_has_a_template() -> None:
    assert list(KINDS) == sorted(COMPONENT_KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_component_imports_what_is_public_to_authors(kind: str) -> None:
    """One import line of Batchwright, in the component and in its test."""
    files = Scaffold(kind, "my-own").files()
    imported = re.findall(r"(?m)^ *(?:from|import) (batchwright\b[\w.]*)", files[SOURCE])
    assert imported == ["batchwright.plugin"]
    imported = re.findall(r"(?m)^ *(?:from|import) (batchwright\b[\w.]*)", files[TEST])
    assert imported == ["batchwright.testing.conformance"]


@pytest.mark.parametrize("kind", KINDS)
def test_its_test_derives_the_conformance_class_of_the_kind(kind: str) -> None:
    assert f"({CONFORMANCE[kind].__name__}):" in Scaffold(kind, "my-own").files()[TEST]


def test_sources_are_clean() -> None:
    """What is written passes the linter and the formatter of this repository, and its own."""
    for kind in KINDS:
        assert new(kind, f"my-{kind}").exit_code == 0
    ours = ["--config", str(ROOT / "pyproject.toml")]
    for settings in (ours, []):
        tool(["ruff", "check", "--ignore", "D,I001,TC002", *settings])
        tool(["ruff", "format", "--check", *settings])


@pytest.mark.slow
def test_types_are_complete() -> None:
    """All that is written passes mypy --strict."""
    paths, packages = [ROOT / "core", ROOT / "plugins"], []
    for kind in KINDS:
        assert new(kind, f"my-{kind}", "--output", kind).exit_code == 0
        paths.append(Path(kind, "src").absolute())
        packages += ["-p", f"batchwright_my_{kind}"]
    settings = ["--strict", "--config-file=", "--ignore-missing-imports"]
    tool(["mypy", *settings, *packages], MYPYPATH=os.pathsep.join(map(str, paths)))


def tool(command: list[str], **environment: str) -> str:
    """Run a tool that must find nothing wrong; return what it said."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
        ("kv", "kv", "MyKV"),
        ("kv", "plain-kv", "PlainKV"),
    ],
)
def test_class_is_named_after_name_and_kind(kind: str, name: str, component: str) -> None:
    assert Scaffold(kind, name).component == component
