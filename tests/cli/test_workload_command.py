"""``batchwright workload describe``: what a trace is like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner, Result

from batchwright.protocols import Arrival
from batchwright_cli.main import CommandGroup, main
from batchwright_lab.workload.description import describe

if TYPE_CHECKING:
    import pytest


def run(*arguments: str) -> Result:
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    return CliRunner().invoke(group, ["workload", "describe", *arguments])


def arrival(time: float, prompt: list[int], output: int = 1, **fields: Any) -> Arrival:
    return Arrival(time=time, prompt_token_ids=prompt, num_output_tokens=output, **fields)


def test_figures_are_those_of_the_arrivals() -> None:
    found = describe(
        [
            arrival(0.0, [1] * 10, 4, client="a"),
            arrival(1.0, [1] * 30, 8, client="a", group="g"),
            arrival(4.0, [2] * 20, 6, client="b", group="g"),
        ],
        100,
        16,
    )
    assert (found["requests"], found["seconds"], found["rate"]) == (3, 4.0, 0.5)
    assert found["gap_cv"] == 0.5  # gaps of 1 and 3 seconds
    assert found["prompt_tokens"] == {"mean": 20, "p50": 20, "p90": 28, "p99": 29.8, "max": 30}
    assert found["output_tokens"]["p50"] == 6
    assert (found["clients"], found["groups"]) == (2, 1)
    assert found["top_clients"] == [2 / 3, 1 / 3]


def test_sharing_depends_on_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix is found if all of it is still there; caches forget what is used least."""
    from batchwright_lab.workload import description

    monkeypatch.setattr(description, "CACHE_SIZES", (2, 3, None))
    prompts = [[1] * 8, [2] * 4, [1] * 8, [3] * 4, [2] * 4, [1] * 6]
    found = describe([arrival(float(t), p) for t, p in enumerate(prompts)], 100, 4)
    total = 34
    assert found["sharing"] == {
        "2": 0 / total,
        "3": 8 / total,  # the third whole; the first one's blocks are gone at the end
        "endless": 16 / total,
    }


def test_limit_is_how_many_are_looked_at() -> None:
    endless = (arrival(float(n), [n + 1]) for n in iter(int, 1))
    assert describe(endless, 7, 16)["requests"] == 7


def test_command_prints_a_table_or_json(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [
        {"time": n, "prompt_tokens": 600, "output_tokens": 5, "prefix": {"s": 512}, "client": "a"}
        for n in range(3)
    ]
    trace.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    shown = run(str(trace))
    assert shown.exit_code == 0, shown.output
    assert "requests               3 in 2.0 s" in shown.output
    assert "arrivals               1.00 a second, CV of gaps 0.00" in shown.output
    assert "prompt tokens          mean 600, p50 600, p90 600, p99 600, max 600" in shown.output
    assert "endless 56.9% (LRU, blocks of 512 tokens)" in shown.output
    assert "clients                1; the busiest make 100.0% of the requests" in shown.output
    facts = json.loads(run(f"jsonl:{trace}", "--json", "--block-size", "256").output)
    assert facts["sharing"]["endless"] == 1024 / 1800


def test_made_workload_is_described_by_name() -> None:
    result = run("constant", "-o", "workload.constant.rate=4", "--limit", "9")
    assert "requests               9 in 2.0 s" in result.output


def test_broken_line_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"time": 0, "output_tokens": 1}\n')
    result = run(str(tmp_path / "t.jsonl"))
    assert result.exit_code == 2
    assert "t.jsonl:1: expected prompt_tokens" in result.output
