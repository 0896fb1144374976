"""Clean environments: our wheels and what they need, nothing else, and no network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]

BuildWheel = Callable[[Path], Path]
MakeEnvironment = Callable[..., Path]
Run = Callable[..., str]


@pytest.fixture(scope="session")
def build_wheel(tmp_path_factory: pytest.TempPathFactory) -> BuildWheel:
    """Build the wheel of a project folder, once."""
    built: dict[Path, Path] = {}

    def build(project: Path) -> Path:
        if project not in built:
            folder = tmp_path_factory.mktemp("dist")
            command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
            subprocess.run(
                [*command, "--outdir", str(folder), str(project)],
                check=True,
                capture_output=True,
                text=True,
            )
            (built[project],) = folder.glob("*.whl")
        return built[project]

    return build


@pytest.fixture(scope="session")
def make_environment(
    tmp_path_factory: pytest.TempPathFactory, build_wheel: BuildWheel
) -> MakeEnvironment:
    """Make an environment with wheels of project folders; returns its ``bin``.

    What they depend on is copied from the environment of the tests.
    """

    def make(*projects: Path, tools: Iterable[str] = ()) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        venv.create(folder, with_pip=False)
        (site,) = folder.glob("lib/python*/site-packages")
        wheels = [build_wheel(project) for project in projects]
        for needed in _closure([*_light_dependencies(), *tools]):
            _copy(needed, site)
        command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
        subprocess.run(
            [*command, "install", "--quiet", "--no-deps", "--no-index", *map(str, wheels)],
            check=True,
            capture_output=True,
            text=True,
        )
        return folder / "bin"

    return make


def _light_dependencies() -> list[str]:
    """Return the requirements of pyproject.toml without extras."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def _closure(requirements: Iterable[str]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    todo = [Requirement(text) for text in requirements]
    while todo:
        requirement = todo.pop()
        if requirement.name in found:
            continue
        installed = distribution(requirement.name)
        found[requirement.name] = installed
        todo += [
            needed
            for needed in map(Requirement, installed.requires or ())
            if needed.marker is None or needed.marker.evaluate({"extra": ""})
        ]
    return list(found.values())


def _copy(installed: Distribution, site: Path) -> None:
    for file in installed.files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue  # scripts; they name another interpreter
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(installed.locate_file(file)), target)


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a command of an environment that must succeed; what it wrote."""

    def run_command(*command: object, cwd: Path) -> str:
        done = subprocess.run(
            list(map(str, command)), cwd=cwd, capture_output=True, text=True, env={"PATH": ""}
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return run_command
