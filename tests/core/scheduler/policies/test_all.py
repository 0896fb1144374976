"""What holds for all of them: public means only, short, right under stress."""

from __future__ import annotations

import ast
import io
import random
import tokenize
from pathlib import Path
from typing import Any

import pytest

from batchwright import Request, Scheduler
from batchwright.testing import drive, make_request

PLUGINS = sorted(Path(__file__).with_name("plugins").glob("*.py"))
MODULES = [path.stem for path in PLUGINS]
MAX_LINES = 60
PUBLIC = {"batchwright", "batchwright.plugin"}
STANDARD = {"__future__", "collections", "collections.abc", "itertools", "math", "attrs"}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_all_are_here() -> None:
    assert len(MODULES) == 3


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: path.stem)
def test_only_what_is_public_is_used(path: Path) -> None:
    """Public modules, and nothing underscored that is not the class's own."""
    tree = parsed(path)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            assert module in PUBLIC | STANDARD, f"line {node.lineno}: {module}"
            assert not any(alias.name.startswith("_") for alias in node.names)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            assert is_own, f"line {node.lineno}: {ast.unparse(node)}"
            assert node.attr in own, f"line {node.lineno}: {ast.unparse(node)} is inherited"
        if isinstance(node, ast.Name):
            assert node.id not in {"getattr", "setattr", "vars", "object"}, f"line {node.lineno}"


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: path.stem)
def test_each_is_short(path: Path) -> None:
    """Lines with code: no blank ones, no comments, no docstrings."""
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    assert len(lines) <= MAX_LINES


def workload(seed: int) -> dict[int, list[Request]]:
    """Requests by the step that they arrive before, with every field that a policy reads."""
    chance = random.Random(seed)
    arrivals: dict[int, list[Request]] = {}
    for number in range(50):
        step = chance.randrange(60)
        kind = f"{chance.randrange(3)}"
        request = make_request(
            f"r{number}",
            chance.randint(1, 24),
            chance.randint(1, 20),
            client=chance.choice(["a", "b", None]),
            group=chance.choice([f"g{kind}", None]),
            adapter=chance.choice([f"adapter {kind}", None]),
            deadline=chance.choice([step + chance.randint(1, 60), None]),
        )
        arrivals.setdefault(step, []).append(request)
    return arrivals


@pytest.fixture
def tight(load: Any) -> Any:
    """A scheduler in which seats, blocks and tokens run out all the time."""

    def make(module: str, depth: int) -> Scheduler:
        options = {"hold_latency": {"step": 4}}
        b = load(
            module,
            options.get(module),
            usable=13,
            block_size=4,
            budget=24,
            max_num_seqs=4,
            max_model_len=48,
            pipeline_depth=depth,
            group_time_to_live=5.0,
        )
        scheduler: Scheduler = b.scheduler
        return scheduler

    return make


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("module", MODULES)
def test_random_runs_keep_all_invariants(tight: Any, module: str, seed: int, depth: int) -> None:
    """Every output is what an unlimited pool would give; nothing is left; no fault."""
    scheduler = tight(module, depth)
    driver = drive(scheduler, workload(seed), depth=depth)
    assert scheduler.fault_counts == {}
    assert scheduler.progress_guard.num_interventions == 0
    assert {end.partition("/")[0] for end in driver.recorder.finished.values()} == {"length"}
