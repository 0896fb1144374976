"""Every file in examples/ does what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright import ModelOutput, Request, SamplingParams, VirtualClock
from batchwright.assembly import Assembly
from batchwright.config import load_config
from batchwright_cli.main import main
from batchwright_engine.answering.prompt_file import read_prompts

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def run_program(*arguments: object) -> str:
    paths = os.pathsep.join([str(ROOT / "core"), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_configuration_is_valid(path: Path) -> None:
    done = CliRunner().invoke(main, ["config", "check", str(path)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("prompts/*")), ids=lambda path: path.name)
def test_prompts_can_be_read(path: Path) -> None:
    assert len(read_prompts(path, SamplingParams())) >= 24


def test_policy_is_short_and_serves_the_shortest_prompt() -> None:
    assert len((EXAMPLES / "my_policy.py").read_text().splitlines()) <= 25
    config = load_config(EXAMPLES / "my_policy.toml", ["scheduler.max_num_seqs=1"])
    scheduler = Assembly(config, clock=VirtualClock()).scheduler()
    for size in (30, 10, 20):
        scheduler.add_request(
            Request(
                request_id=f"{size}",
                prompt_token_ids=[size] * size,
                sampling_params=SamplingParams(max_tokens=1),
            )
        )
    served: list[str] = []
    while scheduler.has_unfinished:
        plan = scheduler.schedule()
        served += plan.num_scheduled_tokens
        scheduler.update_from_output(plan, ModelOutput(served[-1:], [[7]]))
    assert served == ["10", "20", "30"]


def test_scheduler_is_driven_by_hand() -> None:
    """Decodes go on beside a prompt in pieces: 62 tokens, 62, 26."""
    steps = run_program(EXAMPLES / "drive_scheduler.py").splitlines()
    assert steps[1].startswith("step 1: {'short': 1, 'other': 1, 'long': 62}")
    assert steps[3].startswith("step 3: {'short': 1, 'other': 1, 'long': 26}")
    assert len(steps) == 6


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The quickstart on a dozen prompts, in a pool that is smaller accordingly."""
    folder = tmp_path_factory.mktemp("quickstart")
    lines = (EXAMPLES / "prompts" / "quickstart.jsonl").read_text().splitlines()[:12]
    prompts = [{**json.loads(line), "max_tokens": 24} for line in lines]
    few = folder / "few.jsonl"
    few.write_text("".join(f"{json.dumps(prompt)}\n" for prompt in prompts))
    output = folder / "out.jsonl"
    arguments = ["run", EXAMPLES / "quickstart.toml", "--prompts", few, "--output", output]
    stdout = run_program("-m", "batchwright", *arguments, "-o", "kv.num_blocks=36")
    return stdout, output


@pytest.mark.model
@pytest.mark.slow
def test_quickstart_shows_prefix_hits_and_preemptions(quickstart: Any) -> None:
    stdout, output = quickstart
    results = [json.loads(line) for line in output.read_text().splitlines()]
    assert [result["id"] for result in results] == [f"q{n:02d}" for n in range(1, 13)]
    assert all(result["text"].strip() for result in results)
    assert sum(result["counts"]["num_preemptions"] for result in results) > 0
    assert sum(result["counts"]["num_cached_tokens"] for result in results) > 1000
    assert "requests               12 of 12" in stdout
    assert results[0]["prompt"] in stdout


@pytest.mark.model
@pytest.mark.slow
def test_one_by_one_answers_as_many_tokens(quickstart: Any) -> None:
    _, output = quickstart
    first = json.loads(output.read_text().splitlines()[0])
    said = run_program(EXAMPLES / "one_by_one.py", output, "--every", "12")
    assert f"({len(first['token_ids'])} in" in said
