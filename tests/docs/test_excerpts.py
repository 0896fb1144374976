"""Pieces of code in the documents are what the modules say: ``python excerpt=PATH:NAME``.

python tests/docs/test_excerpts.py      # writes them anew, after a change of the code
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```python excerpt=(\S+):(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXCERPTS = {
    document.stem: FENCE.findall(document.read_text(encoding="utf-8"))
    for document in sorted((ROOT / "docs").rglob("*.md"))
}
ALL = [excerpt for found in EXCERPTS.values() for excerpt in found]


def source_of(path: Path, name: str) -> str:
    """The source of a function or a class, e.g. ``Scheduler.schedule``, without its indentation."""
    text = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        node = next(n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    lines = text.splitlines(keepends=True)[node.lineno - 1 : node.end_lineno]
    return textwrap.dedent("".join(lines))


@pytest.mark.parametrize(("path", "name", "text"), ALL, ids=lambda part: part.split("\n")[0])
def test_excerpt_equals_its_source(path: str, name: str, text: str) -> None:
    assert text == source_of(ROOT / path, name)


def test_the_step_is_explained_beside_its_code() -> None:
    """The plan of a step, then the two scans, each on one screen."""
    names = [name for _, name, _ in EXCERPTS["the-step"]]
    assert names == [
        "StepScheduler._plan_step",
        "Scheduler.plan",
        "RunningScan.run",
        "RunningScan.schedule",
        "WaitingScan.run",
        "AdmissionAttempt._try",
    ]
    assert max(text.count("\n") for _, _, text in ALL) <= 40


def refresh(document: Path) -> None:
    """Write each excerpt of a document anew."""

    def current(match: re.Match[str]) -> str:
        path, name = match[1], match[2]
        return f"```python excerpt={path}:{name}\n{source_of(ROOT / path, name)}```"

    document.write_text(FENCE.sub(current, document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for page in sorted((ROOT / "docs").rglob("*.md")):
        refresh(page)
