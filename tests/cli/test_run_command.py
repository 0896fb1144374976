"""``batchwright run`` from outside, with an executor that needs no model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright_cli.main import main

LETTERS = Path(__file__).with_name("letters.py")
ROOT = Path(__file__).resolve().parents[3]
CONFIG = f"""
[model]
path = "none"
max_model_len = 200

[executor]
use = "letters"

[plugins]
load = ['{LETTERS}']

[run]
prompts = "prompts.jsonl"
"""
PROMPTS = [{"prompt": f"Number {number}", "max_tokens": 9 - number} for number in range(6)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG)
    write_prompts(tmp_path, PROMPTS)
    return tmp_path


def write_prompts(folder: Path, prompts: list[Any]) -> None:
    lines = "".join(f"{json.dumps(prompt)}\n" for prompt in prompts)
    (folder / "prompts.jsonl").write_text(lines)


def run(folder: Path, *arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(main, ["run", str(folder / "run.toml"), *arguments], **options)


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_run_writes_results_in_input_order(folder: Path) -> None:
    """The last prompt ends first, and stands last."""
    done = run(folder, "--output", str(folder / "out.jsonl"))
    assert done.exit_code == 0, done.output
    written = results(folder / "out.jsonl")
    assert [r["id"] for r in written] == [f"line-{n}" for n in range(1, 7)]
    assert [len(r["token_ids"]) for r in written] == [9, 8, 7, 6, 5, 4]
    first = written[0]
    assert first["prompt"] == "Number 0"
    assert first["text"] == "".join(chr(97 + token % 26) for token in first["token_ids"])
    assert (first["finish_reason"], first["detail"]) == ("length", "max_tokens")
    assert set(first["timings"]) == {"queue_time_s", "ttft_s", "tpot_s", "e2e_s"}
    assert first["counts"]["num_output_tokens"] == 9
    assert first["counts"]["num_prompt_tokens"] == len("<user>Number 0")


def test_run_reports_figures_and_answers(folder: Path) -> None:
    done = run(folder, "-o", "run.num_answers_shown=2")
    assert done.exit_code == 0, done.output
    assert "tiny" in done.stderr
    assert "policy fcfs" in done.stderr
    assert "6 (6 length)" in done.stdout
    for name in ("output tokens/s", "time to first token", "KV peak", "preemptions"):
        assert name in done.stdout
    assert "Number 1" in done.stdout
    assert "Number 2" not in done.stdout


def test_run_counts_prefix_hits_and_preemptions(folder: Path) -> None:
    """Prompts that begin alike share blocks; a small pool makes some yield."""
    write_prompts(folder, [{"prompt": f"{'same ' * 8}{n}"} for n in range(4)])
    done = run(
        folder,
        *("--output", str(folder / "out.jsonl")),
        *("-o", "kv.num_blocks=14", "-o", "kv.block_size=4", "-o", "run.chat=false"),
        *("-o", "scheduler.max_num_batched_tokens=64", "-o", "sampling.max_tokens=12"),
    )
    assert done.exit_code == 0, done.output
    counts = [r["counts"] for r in results(folder / "out.jsonl")]
    assert [c["num_cached_tokens"] for c in counts] == [0, 40, 40, 40]
    num_preemptions = sum(c["num_preemptions"] for c in counts)
    assert num_preemptions > 0
    (line,) = [row for row in done.stdout.splitlines() if "preemptions" in row]
    assert str(num_preemptions) in line


def test_run_puts_the_chat_template_and_the_system_prompt(folder: Path) -> None:
    """Around texts, before conversations without one; run.chat = false sends texts."""
    own = {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]}
    write_prompts(
        folder,
        [{"prompt": "Hi"}, own, {"messages": own["messages"][1:]}, {"prompt_token_ids": [5]}],
    )

    def lengths(*overrides: str) -> list[int]:
        options = [part for override in overrides for part in ("-o", override)]
        done = run(folder, "--output", str(folder / "out.jsonl"), *options)
        assert done.exit_code == 0, done.output
        found = results(folder / "out.jsonl")
        return [result["counts"]["num_prompt_tokens"] for result in found]

    plain = [len(t) for t in ("<user>Hi", "<system>S<user>U", "<user>U")]
    assert lengths() == [*plain, 1]
    with_system = [len(t) for t in ("<system>be<user>Hi", "<system>S<user>U")]
    assert lengths("run.system=be")[:2] == with_system
    assert lengths("run.chat=false")[0] == len("Hi")


def test_run_goes_on_after_a_refused_request(folder: Path) -> None:
    write_prompts(
        folder,
        [
            {"prompt": "x" * 300},
            {"messages": [{"role": "nobody", "content": "?"}]},
            {"prompt": "fine", "max_tokens": 3},
        ],
    )
    done = run(folder, "--output", str(folder / "out.jsonl"))
    assert done.exit_code == 0, done.output
    long, nobody, fine = results(folder / "out.jsonl")
    assert long["finish_reason"] == nobody["finish_reason"] == "refused"
    assert "exceeds max_model_len - 1 = 199" in long["detail"]
    assert "refuses these messages" in nobody["detail"]
    assert (fine["finish_reason"], len(fine["token_ids"])) == ("length", 3)
    assert "2 refused" in done.stdout
    assert "first failure          its prompt of" in done.stdout


def test_run_fails_if_nothing_is_answered(folder: Path) -> None:
    write_prompts(folder, [{"prompt": "x" * 300}])
    done = run(folder)
    assert done.exit_code == 1
    assert "no prompt was answered: its prompt of" in done.stderr


def test_run_in_which_a_request_fails_is_no_success(folder: Path) -> None:
    (folder / "picky.py").write_text(PICKY)
    load = ("-o", f"plugins.load[1]={folder / 'picky.py'}", "-o", "scheduler.policy=picky")
    done = run(folder, "--output", str(folder / "out.jsonl"), *load)
    assert done.exit_code == 1
    assert "6 of 6 (1 error, 5 length)" in done.stdout
    assert "key() raised LookupError: not this one" in done.stdout


PICKY = """
from batchwright.plugin import SchedulingPolicy, hookimpl


class Picky(SchedulingPolicy):
    name = "picky"

    def key(self, request):
        if request.request_id == "line-2":
            raise LookupError("not this one")
        return 0


@hookimpl
def batchwright_register_policy():
    return [Picky]
"""


def test_run_prints_what_observers_saw_and_the_cost_of_deciding(folder: Path) -> None:
    done = run(folder, "-o", "observer[0].use=invariants")
    assert done.exit_code == 0, done.output
    assert re.search(r"^invariants {13}checks \d+, violations none$", done.stdout, re.M)
    assert re.search(
        r"^time a decision {8}[\d.]+ .?s \(wall clock, \d+ steps\)$", done.stdout, re.M
    )


def test_run_passes_fields_of_a_request_on(folder: Path) -> None:
    """Under the policy ``priority`` the last line, the most urgent, runs first."""
    write_prompts(
        folder,
        [{"prompt": f"{n}", "priority": -n, "max_tokens": 2, "deadline": 9} for n in range(4)],
    )
    done = run(
        folder,
        *("--output", str(folder / "out.jsonl")),
        *("-o", "scheduler.policy=priority", "-o", "scheduler.max_num_seqs=1"),
    )
    assert done.exit_code == 0, done.output
    times = [result["timings"]["ttft_s"] for result in results(folder / "out.jsonl")]
    assert times == sorted(times, reverse=True)


def test_run_writes_nothing_but_results_to_standard_output(folder: Path) -> None:
    done = run(folder, "--prompts", "-", "--output", "-", input='{"prompt": "Hi"}\n')
    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["prompt"] == "Hi"
    assert "preemptions" in done.stderr


def test_run_takes_files_of_the_configuration_relative_to_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    done = run(folder, "-o", "run.output=answers.jsonl")
    assert done.exit_code == 0, done.output
    assert len(results(folder / "answers.jsonl")) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompts", "none.txt"], "none.txt: cannot be read: No such file"),
        (["--output", "/dev/null/out"], "/dev/null/out: cannot be written: it is a file"),
        (["-o", "run.prompts=none.jsonl"], "none.jsonl: cannot be read: No such file"),
        (["-o", "scheduler.policy=fcsf"], "Did you mean 'fcfs'?"),
        (["-o", "observer[0].use=progess"], "Did you mean 'progress'?"),
    ],
)
def test_run_refuses_what_is_wrong_before_it_loads_a_model(
    folder: Path, arguments: list[str], message: str
) -> None:
    done = run(folder, *arguments, "-o", "executor.letters.seconds=60")
    assert done.exit_code == 2
    assert message in done.stderr


def test_run_needs_prompts(folder: Path) -> None:
    (folder / "run.toml").write_text(CONFIG.replace("prompts = ", "# prompts = "))
    done = run(folder)
    assert done.exit_code == 2
    assert "run.prompts: a run needs prompts" in done.stderr


def test_run_keeps_what_is_finished_when_the_executor_dies(folder: Path) -> None:
    done = run(
        folder,
        *("--output", str(folder / "out.jsonl"), "-o", "executor.letters.dies_at=6"),
        *("-o", "executor.max_restarts=0"),
    )
    assert done.exit_code == 1
    assert "the machine is on fire" in done.stderr
    assert f"3 results in {folder / 'out.jsonl'}" in done.stderr
    assert [r["id"] for r in results(folder / "out.jsonl")] == ["line-4", "line-5", "line-6"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_keeps_what_is_finished_when_it_is_stopped(folder: Path, number: int) -> None:
    """A signal ends it after the step at hand; results are in order, and said to be."""
    write_prompts(folder, [{"prompt": "long", "max_tokens": 150}, *PROMPTS])
    part = folder / "out.jsonl.part"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "batchwright", "run", str(folder / "run.toml")),
            *("--output", str(folder / "out.jsonl"), "-o", "executor.letters.seconds=0.2"),
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'core'}:{ROOT / 'plugins'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (part.exists() and part.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number, stderr
    kept = results(folder / "out.jsonl")
    assert 3 <= len(kept) < 7
    assert [r["line"] for r in kept] == sorted(r["line"] for r in kept)
    assert f"{len(kept)} of 7 requests were finished" in stderr
    assert "preemptions" in stdout
    assert not part.exists()
