"""The whole schedulers of contrib as their users get them: installed, named in TOML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {name: ROOT / "contrib" / f"batchwright-{name}" for name in ("v0", "static")}


@pytest.fixture(scope="module")
def environment(make_environment: Any) -> Path:
    bin_folder: Path = make_environment(ROOT, *PROJECTS.values(), tools=["pytest"])
    return bin_folder


def test_schedulers_are_listed_with_their_distributions(
    environment: Path, tmp_path: Path, run: Any
) -> None:
    listed = json.loads(
        run(environment / "batchwright", "plugins", "scheduler", "--json", cwd=tmp_path)
    )
    assert listed["broken"] == []
    assert [(c["name"], c["distribution"]) for c in listed["components"]] == [
        ("static", "batchwright-static"),
        ("unified", "batchwright"),
        ("v0", "batchwright-v0"),
    ]


@pytest.mark.parametrize("name", PROJECTS)
def test_scheduler_runs_by_toml(name: str, environment: Path, tmp_path: Path, run: Any) -> None:
    (tmp_path / "run.toml").write_text(f'[scheduler]\nuse = "{name}"\n')
    command = (environment / "batchwright", "simulate", "--config", "run.toml")
    said = run(*command, "--workload", "poisson", "--limit", "5", cwd=tmp_path)
    assert "5 of 5" in said


@pytest.mark.parametrize("name", PROJECTS)
def test_scheduler_passes_its_own_tests(
    name: str, environment: Path, tmp_path: Path, run: Any
) -> None:
    command = (environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    folder = PROJECTS[name]
    assert " passed" in run(*command, "--rootdir", folder, folder / "tests", cwd=tmp_path)
