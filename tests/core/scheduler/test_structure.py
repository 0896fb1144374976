"""The structure of the scheduler: small parts, no cycles, one caller for each contract."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import batchwright
from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.protocols import Component

CORE = Path(batchwright.__file__).parent
SCHEDULER = sorted((CORE / "scheduler").glob("*.py"))
CALLERS = sorted((CORE / "callers").glob("*.py"))
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 40


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(path: Path) -> Iterator[str]:
    """Modules of the scheduler that a module imports, for types only included."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "batchwright.scheduler."
        ):
            assert node.module is not None
            yield node.module.rpartition(".")[2]


def test_no_import_goes_round_in_a_circle() -> None:
    waiting = {path.stem: set(imported(path)) for path in SCHEDULER}
    while ready := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in ready:
            del waiting[name]
    assert waiting == {}


def test_callers_do_not_know_the_scheduler() -> None:
    assert [path.stem for path in CALLERS if list(imported(path))] == []


@pytest.mark.parametrize("path", [*SCHEDULER, *CALLERS], ids=lambda path: path.stem)
def test_files_and_functions_fit_a_screen_or_a_few(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= MAX_FUNCTION_LINES, f"{path.name}:{node.lineno}: {size} lines"


def contract_methods() -> set[str]:
    """Methods that a component may define, by the contracts of its kinds."""
    return {
        name
        for contract in COMPONENT_KINDS.values()
        if issubclass(contract, Component)
        for name, _ in inspect.getmembers(contract, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("path", CALLERS, ids=lambda path: path.stem)
def test_no_caller_names_a_method_in_a_string(path: Path) -> None:
    """A method is named where it is called, so that tools find and type each call."""
    strings = {n.value for n in ast.walk(tree_of(path)) if isinstance(n, ast.Constant)}
    assert not contract_methods() & strings


@pytest.mark.parametrize("path", SCHEDULER, ids=lambda path: path.stem)
def test_the_step_reaches_components_through_callers(path: Path) -> None:
    """No module of the step knows a contract, but for its own and the KV manager's."""
    contracts = {contract.__name__ for contract in COMPONENT_KINDS.values()}
    contracts -= {"KVManager", "SchedulerBase"}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "batchwright.protocols":
            assert not contracts & {alias.name for alias in node.names}
