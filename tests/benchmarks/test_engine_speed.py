"""The benchmark of engines runs; its numbers are looked at by people, not by a test."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import engine_speed
from engine_workloads import WORKLOADS, Workload

TINY = Workload("tiny", (16, 1, 2, 16, 50), "float32", 1, [2, 3])


@pytest.mark.slow
def test_ours_answers_a_workload(tmp_path: Path) -> None:
    """A model is written, `batchwright bench` runs beside us, its last line is read."""
    rates = engine_speed.measure(TINY, None, (), 1, tmp_path)
    assert list(rates) == ["batchwright"]
    assert all(rate > 0 for rate in rates["batchwright"][0])
    rows = [json.loads(line) for line in (tmp_path / "tiny.jsonl").read_text().splitlines()]
    assert [row["max_tokens"] for row in rows] == [2, 3]
    assert [len(row["prompt_token_ids"]) for row in rows] == [64, 64]


def test_engines_take_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every round asks every engine once, and none is asked twice in a row."""
    asked: list[str] = []

    def answer(command: list[str], work: dict[str, Any]) -> dict[str, Any]:
        asked.append(command[2])
        rate = float(len(asked))
        return {"output_tokens_per_second": rate, "output_tokens": 12, "cpu_seconds": rate}

    monkeypatch.setattr(engine_speed, "_run", answer)
    monkeypatch.setattr(Workload, "write", lambda self, folder: dict.fromkeys(WORK, "x"))
    rates = engine_speed.measure(TINY, "python", ("vllm", "generate"), 2, tmp_path)
    assert asked == ["batchwright", "vllm", "generate"] * 2
    expected = {"batchwright": [1, 4], "vllm": [2, 5], "generate": [3, 6]}
    assert rates == {k: [(v, 12 / v) for v in values] for k, values in expected.items()}
    row = engine_speed._row("tiny", "vllm", rates["vllm"], rates["batchwright"])
    assert row.split() == ["tiny", "vllm", "4", "(2,", "5)", "4", "0.71x", "1.79x"]


WORK = ("path", "model", "dtype", "threads", "prompts")


def test_a_process_that_fails_is_an_error() -> None:
    """With what it wrote."""
    with pytest.raises(RuntimeError, match="no such engine"):
        engine_speed._run(
            [sys.executable, "-c", "raise SystemExit('no such engine')"], {"threads": 1}
        )


def test_workloads_are_those_of_the_table() -> None:
    """Their names are what `--only` takes."""
    names = [workload.name for workload in WORKLOADS]
    assert names == ["tiny", "small", "small-mixed", "chat-bfloat16", "chat-float32"]
    assert [len(workload.output_lens) for workload in WORKLOADS] == [64, 64, 64, 32, 32]
