"""``batchwright bench`` from outside, with an executor that needs no model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright_cli.main import main

LETTERS = Path(__file__).with_name("letters.py")
CONFIG = f"""
[model]
path = "none"
max_model_len = 200

[scheduler]
max_num_seqs = 4

[executor]
use = "letters"

[plugins]
load = ['{LETTERS}']
"""
SHARES = ["scheduling", "input_preparation", "forward", "sampling", "bookkeeping"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG)
    prompts = [{"prompt": "A question " * 3, "max_tokens": 3 + n} for n in range(6)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(p) + "\n" for p in prompts))
    return tmp_path


def bench(folder: Path, *arguments: str) -> Any:
    prompts = ["--prompts", str(folder / "prompts.jsonl")]
    return CliRunner().invoke(main, ["bench", str(folder / "run.toml"), *prompts, *arguments])


def test_bench_prints_one_object_last(folder: Path) -> None:
    """With --json: rates, percentiles in seconds, steps, and shares that sum up to 1."""
    done = bench(folder, "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["output_tokens"] == sum(range(3, 9))
    assert figures["prompt_tokens"] == 6 * len("<user>" + "A question " * 3)
    assert figures["requests"] == 6
    assert figures["failed"] == 0
    assert figures["steps"] >= 8
    assert list(figures["shares"]) == SHARES
    assert sum(figures["shares"].values()) == pytest.approx(1.0)
    rate = figures["output_tokens"] / figures["seconds"]
    assert figures["output_tokens_per_second"] == pytest.approx(rate)
    total = (figures["output_tokens"] + figures["prompt_tokens"]) / figures["seconds"]
    assert figures["total_tokens_per_second"] == pytest.approx(total)
    for name in ("ttft", "tpot"):
        values = figures[name]
        assert list(values) == ["p50", "p90", "p99"]
        assert 0 <= values["p50"] <= values["p90"] <= values["p99"]
    assert figures["limits"] == {"rows": 4}


def test_bench_prints_a_table(folder: Path) -> None:
    """Without --json, for people."""
    done = bench(folder)
    assert done.exit_code == 0, done.output
    assert "policy fcfs" in done.stderr
    for name in ("output tokens/s", "time to first token", "share of input preparation  "):
        assert name in done.stdout


def test_bench_takes_the_prompts_of_the_configuration(folder: Path) -> None:
    """As ``run`` does; without any it says where they belong."""
    arguments = ["bench", str(folder / "run.toml"), "-o", "run.prompts=prompts.jsonl", "--json"]
    done = CliRunner().invoke(main, arguments)
    assert json.loads(done.stdout.splitlines()[-1])["requests"] == 6
    done = CliRunner().invoke(main, arguments[:2])
    assert done.exit_code == 2
    assert "run.prompts: a run needs prompts; name a file here or with --prompts" in done.output


def test_bench_finds_nothing_cached_by_the_warm_up(folder: Path) -> None:
    """The runs have cache salts of their own, beside those of the prompts."""
    from batchwright.config import load_config
    from batchwright_engine.answering.measurement import measure
    from batchwright_engine.answering.prompt_file import read_prompts
    from batchwright_engine.assembly import EngineAssembly
    from batchwright_engine.sections import RunSection

    config = load_config(folder / "run.toml", ["observer[0].use=stats", "kv.block_size=4"])
    lines = read_prompts(folder / "prompts.jsonl", config.sampling)[:1]
    engine = EngineAssembly(config).engine()
    measure(engine, lines, config.section(RunSection))
    (stats,) = engine.scheduler.components.observers
    assert stats.summary()["prefix_hit_tokens"] == 0
    assert stats.summary()["requests_added"] == 2


def test_bench_needs_prompts(folder: Path) -> None:
    """A missing option is misuse."""
    done = CliRunner().invoke(main, ["bench", str(folder / "run.toml")])
    assert done.exit_code == 2
    assert "--prompts" in done.stderr


def test_bench_tells_what_failed_by_its_exit_code(folder: Path) -> None:
    done = bench(folder, "-o", "model.max_model_len=8")
    assert done.exit_code == 1
    told = "its prompt of 39 tokens exceeds max_model_len - 1 = 7"
    assert f"first failure               {told}" in done.stdout
    assert f"Error: no prompt was answered: {told}" in done.stderr
    (folder / "fails.py").write_text(FAILS)
    chosen = ("-o", "scheduler.policy=fails", "-o", f"plugins.load=['{LETTERS}', 'fails.py']")
    done = bench(folder, *chosen, "--json")
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (done.exit_code, figures["failed"], figures["errors"]) == (1, 1, 1)
    assert "key() raised ZeroDivisionError" in figures["first_failure"]


FAILS = """
from batchwright.plugin import SchedulingPolicy, hookimpl


class Fails(SchedulingPolicy):
    name = "fails"

    def key(self, request):
        return 1 / (request.max_tokens != 3)


@hookimpl
def batchwright_register_policy():
    return [Fails]
"""
