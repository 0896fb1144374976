"""The whole schedulers of contrib and ours, by TOML, in simulator and engine, unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright_cli.main import main

ROOT = Path(__file__).resolve().parents[2]
LETTERS = ROOT / "tests" / "cli" / "letters.py"
CONFIG = ROOT / "examples" / "static-and-continuous.toml"
SCHEDULERS = ("unified", "v0", "static")


def files() -> list[str]:
    return sorted(
        str(path) for path in ROOT.glob("contrib/batchwright-*/src/*_[vs][0t]*/__init__.py")
    )


def call(*arguments: object) -> Any:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def simulate(folder: Path, scheduler: str, *overrides: str) -> dict[str, Any]:
    changed = [part for override in overrides for part in ("-o", override)]
    output = folder / scheduler
    call("simulate", "--config", CONFIG, "--limit", 60, "-o", f"scheduler.use={scheduler}",
         *changed, "--output", output)  # fmt: skip
    return json.loads((output / "summary.json").read_text())


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_request_is_simulated_under_every_check(scheduler: str, tmp_path: Path) -> None:
    """The observers, the KV manager and the executor are those of any other run."""
    small = ("kv.num_blocks=300", "scheduler.max_num_seqs=4", "simulation.until=12")
    checked = "observer=[{use='invariants'},{use='stats'}]"
    summary = simulate(tmp_path, scheduler, *small, checked)
    assert summary["scheduler"] == scheduler
    assert summary["num_component_faults"] == 0
    assert summary["observers"]["invariants"]["violations"] == {}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_answers_of_a_run_do_not_depend_on_the_scheduler(scheduler: str, tmp_path: Path) -> None:
    lines = [{"prompt": f"Number {n}", "max_tokens": 9 - n} for n in range(6)]
    (tmp_path / "prompts.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "run.toml").write_text(
        f"plugins.load = {[str(LETTERS), *files()]}\n"
        f'scheduler.use = "{scheduler}"\nscheduler.max_num_seqs = 3\n'
        'model = {path = "none", max_model_len = 200}\nexecutor.use = "letters"\n'
    )
    answers = tmp_path / "out.jsonl"
    done = call("run", tmp_path / "run.toml", "--prompts", tmp_path / "prompts.jsonl",
                "--output", answers)  # fmt: skip
    assert f"scheduler {scheduler}, policy fcfs" in done.stderr
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [len(row["token_ids"]) for row in found] == [9, 8, 7, 6, 5, 4]
    assert sum(sum(row["token_ids"]) for row in found) == 21_217


def test_comparison_varies_the_scheduler_and_its_own_options(tmp_path: Path) -> None:
    """An option of one scheduler has no cell with another one."""
    call("compare", "--config", CONFIG, "--limit", 8, "--seeds", 1, "-j", 1,
         "--vary", "scheduler.use=static,v0", "--vary", "scheduler.v0.delay_factor=0,0.5",
         "--output", tmp_path)  # fmt: skip
    rows = (tmp_path / "cells.csv").read_text().splitlines()[1:]
    assert [row.partition(",0,")[0].rpartition(",")[0] for row in rows] == [
        "fcfs,scheduler=static",
        'fcfs,"scheduler=v0, delay_factor=0"',
        'fcfs,"scheduler=v0, delay_factor=0.5"',
    ]


def test_a_static_batch_keeps_others_waiting(tmp_path: Path) -> None:
    """The claims of the page on static and continuous batching, where it says they hold."""
    found = {name: simulate(tmp_path, name) for name in SCHEDULERS}
    waits = {name: one["ttft_p50_s"] for name, one in found.items()}
    assert waits["static"] > 10 * waits["unified"]


def test_a_delay_gains_little_throughput(tmp_path: Path) -> None:
    plain, delayed = (
        simulate(tmp_path / factor, "v0", f"scheduler.v0.delay_factor={factor}")
        for factor in ("0", "0.5")
    )
    assert delayed["simulated_s"] == pytest.approx(plain["simulated_s"], rel=0.02)
