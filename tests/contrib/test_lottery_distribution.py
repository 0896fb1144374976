"""batchwright-lottery as its users get it: installed beside Batchwright, named in TOML."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parents[2]
LOTTERY = ROOT / "contrib" / "batchwright-lottery"
CONFIG = """
[scheduler]
policy = "lottery"
max_num_seqs = 3

[policy.lottery]
tickets = { ada = 3 }

[[gate]]
use = "full-need"
[[gate]]
use = "max-per-client"
requests = 2

[kv]
num_blocks = 100
"""
PROGRAM = """
import json, sys
from batchwright import ModelOutput, Request, SamplingParams, Scheduler
from batchwright.assembly import Assembly
from batchwright.config import load_config

assert "torch" not in sys.modules
scheduler = Assembly(load_config("lottery.toml")).scheduler()
for number in range(20):
    scheduler.add_request(
        Request(
            request_id=str(number),
            prompt_token_ids=[number + 1] * 4,
            sampling_params=SamplingParams(max_tokens=3, ignore_eos=True),
            client="ada" if number % 2 else "grace",
        )
    )
most, admitted = 0, []
while scheduler.has_unfinished:
    plan = scheduler.schedule()
    ids = list(plan.num_scheduled_tokens)
    clients = [request.client for request in scheduler.running]
    most = max(most, *map(clients.count, ("ada", "grace")))
    admitted += [new.req_id for new in plan.scheduled_new_reqs]
    scheduler.update_from_output(plan, ModelOutput(ids, [[7]] * len(ids)))
print(json.dumps({"policy": scheduler.components.policy.ctx.label, "most": most,
                  "admitted": admitted}))
"""


@pytest.fixture(scope="module")
def environment(make_environment: Any) -> Path:
    bin_folder: Path = make_environment(ROOT, LOTTERY, tools=["pytest"])
    return bin_folder


def test_lottery_is_listed_with_its_distribution(
    environment: Path, tmp_path: Path, run: Any
) -> None:
    """Nothing is broken in an environment without torch, and the script works."""
    listed = json.loads(run(environment / "batchwright", "plugins", "--json", cwd=tmp_path))
    assert listed["broken"] == []
    (policy,) = (c for c in listed["components"] if c["name"] == "lottery")
    assert (policy["kind"], policy["distribution"], policy["version"]) == (
        "policy",
        "batchwright-lottery",
        "0.1.0",
    )
    assert [o["name"] for o in policy["options"]] == ["tickets", "default_tickets"]
    (gate,) = (c for c in listed["components"] if c["name"] == "max-per-client")
    assert gate["options"][0]["default"] == "4"


def test_lottery_runs_by_toml(environment: Path, tmp_path: Path, run: Any) -> None:
    """All 20 are served, never more than two of a client at once."""
    (tmp_path / "lottery.toml").write_text(CONFIG)
    checked = run(environment / "batchwright", "config", "check", "lottery.toml", cwd=tmp_path)
    assert "policy lottery" in checked
    said = json.loads(run(environment / "python", "-c", PROGRAM, cwd=tmp_path))
    assert said["policy"] == "policy 'lottery' (batchwright-lottery 0.1.0)"
    assert said["most"] == 2
    assert sorted(map(int, said["admitted"])) == list(range(20))


def test_lottery_passes_its_own_tests(environment: Path, tmp_path: Path, run: Any) -> None:
    command = (environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert " passed" in run(*command, "--rootdir", LOTTERY, LOTTERY / "tests", cwd=tmp_path)


def test_command_of_the_engine_says_what_is_missing(environment: Path, tmp_path: Path) -> None:
    """Without the extra ``engine`` a run ends with a sentence, not with a traceback."""
    (tmp_path / "run.toml").write_text('[model]\npath = "smollm2-135m"\n')
    (tmp_path / "prompts.txt").write_text("Hi\n")
    done = subprocess.run(
        [environment / "batchwright", "run", "run.toml", "--prompts", "prompts.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "pip install -e '.[engine]' (in a checkout of Batchwright)" in done.stderr
