"""The benchmark of engines runs; its numbers are looked at by people, not by a test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import engine_speed
from engine_workloads import WORKLOADS, Workload

TINY = Workload("tiny", (16, 1, 2, 16, 50), "float32", 1, [2, 3])


@pytest.mark.slow
def test_ours_answers_a_workload(tmp_path: Path) -> None:
    """A model is written, `batchwright bench` runs beside us, its last line is read."""
    found, versions = engine_speed.measure(TINY, None, (), 1, tmp_path)
    assert list(found) == ["batchwright"]
    assert versions == {}
    (figures,) = found["batchwright"]
    assert figures["output_tokens"] == 5
    assert engine_speed.rate(figures) > 0
    rows = [json.loads(line) for line in (tmp_path / "tiny.jsonl").read_text().splitlines()]
    assert [row["max_tokens"] for row in rows] == [2, 3]
    assert [len(row["prompt_token_ids"]) for row in rows] == [64, 64]


ENGINE = """
import json, sys
print("an engine prints what it likes")
print(json.dumps({"versions": {sys.argv[1]: "1.0"}}), flush=True)
for number, _ in enumerate(sys.stdin, 1):
    if sys.argv[1] == "broken":
        raise SystemExit("no such engine")
    print(json.dumps({"output_tokens": 6, "seconds": number, "cpu_seconds": 2}), flush=True)
"""


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Peers that know what they answer; ours answers at once."""
    (tmp_path / "engine_peers.py").write_text(ENGINE)
    monkeypatch.setattr(engine_speed, "HERE", tmp_path)
    figures = {"output_tokens": 6, "seconds": 0.5, "cpu_seconds": 1}
    monkeypatch.setattr(engine_speed, "ours", lambda work, folder: figures)
    monkeypatch.setattr(Workload, "write", lambda self, folder: {"threads": 1})


@pytest.mark.usefixtures("engines")
def test_engines_take_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A round asks every engine once; slow ones take part in the first."""
    names = ("vllm", "generate")
    found, versions = engine_speed.measure(TINY, sys.executable, names, 2, tmp_path)
    assert versions == {"vllm": "1.0", "generate": "1.0"}
    assert [r["seconds"] for r in found["vllm"]] == [1, 2]
    assert [r["seconds"] for r in found["generate"]] == [1]
    told = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [f"tiny {name}" for name in ("batchwright", *names, "batchwright", "vllm")]
    row = engine_speed._row("tiny", "vllm", found["vllm"], found["batchwright"])
    assert row.split() == ["tiny", "vllm", "4", "(3,", "6)", "3", "2.67x", "2.00x"]


@pytest.mark.usefixtures("engines")
def test_a_process_that_fails_is_an_error(tmp_path: Path) -> None:
    """With what it wrote."""
    with pytest.raises(RuntimeError, match="no such engine"):
        engine_speed.measure(TINY, sys.executable, ["broken"], 1, tmp_path)


def test_workloads_are_those_of_the_table() -> None:
    """Their names are what `--only` takes."""
    names = [workload.name for workload in WORKLOADS]
    assert names == ["tiny", "small", "small-mixed", "chat-bfloat16", "chat-float32"]
    assert [len(workload.output_lens) for workload in WORKLOADS] == [64, 64, 64, 32, 32]
