"""The workflow of CI agrees with the distribution and the Makefile."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


@pytest.fixture
def jobs() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return found


@pytest.fixture
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def test_every_supported_python_is_tested(jobs: dict[str, Any], project: dict[str, Any]) -> None:
    """The classifiers name the versions of the matrix, the least one first."""
    tested = jobs["tests"]["strategy"]["matrix"]["python"]
    listed = [
        version.removeprefix("Programming Language :: Python :: ")
        for version in project["classifiers"]
        if re.search(r":: Python :: 3\.\d+$", version)
    ]
    assert tested == listed
    assert project["requires-python"] == f">={tested[0]}"


def test_targets_that_ci_makes_exist(jobs: dict[str, Any]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    made = [step.split()[1] for step in steps if step.startswith("make ")]
    assert made == ["lint", "pytest", "test-slow", "coverage"]
    assert set(made) <= set(targets)


def test_ci_needs_no_secrets() -> None:
    assert "secrets." not in WORKFLOW.read_text(encoding="utf-8")
