"""``batchwright simulate``: files, a table, limits, and what it refuses."""

from __future__ import annotations

import csv
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from batchwright.plugin_manager import PluginManager
from batchwright_cli.main import CommandGroup, main

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
[scheduler]
max_num_seqs = 4
max_num_batched_tokens = 64

[kv]
num_blocks = 60

[estimator.linear]
base = 1.0
per_token = 0.0
per_context_token = 0.0
per_attention = 0.0
"""
TRACE = """\
{"time": 0, "prompt_tokens": 30, "output_tokens": 3, "client": "a,b"}
{"time": 0.5, "prompt_tokens": 40, "output_tokens": 2}
{"time": 10, "prompt_tokens": 7, "output_tokens": 1, "max_tokens": 5}
{"time": 10, "prompt_tokens": 9000, "output_tokens": 1}
"""
POLICY = """
from batchwright.plugin import SchedulingPolicy, hookimpl
from batchwright.protocols import StepShape


class Asks(SchedulingPolicy):
    name = "asks"

    def key(self, request):
        shape = StepShape.of([(request.num_prompt_tokens, 0)])
        return self.ctx.estimator.step_time(shape) + self.ctx.predict(request)[0]


@hookimpl
def batchwright_register_policy():
    return [Asks]
"""


def run(*arguments: str) -> Result:
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    return CliRunner().invoke(group, ["simulate", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG)
    (tmp_path / "trace.jsonl").write_text(TRACE)
    (tmp_path / "asks.py").write_text(POLICY)
    return tmp_path


def simulate(folder: Path, *arguments: str, workload: str | None = None) -> Result:
    workload = workload or f"jsonl:{folder / 'trace.jsonl'}"
    return run(
        "--config", str(folder / "run.toml"), "--workload", workload,
        "--output", str(folder / "out"), *arguments,
    )  # fmt: skip


def table(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "out" / "requests.csv").open(newline="") as file:
        return {row["request_id"]: row for row in csv.DictReader(file)}


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "out" / "summary.json").read_text())


def test_every_request_has_a_row(folder: Path) -> None:
    result = simulate(folder)
    assert result.exit_code == 0, result.output
    rows = table(folder)
    assert rows["0"] == {
        "request_id": "0",
        "client": "a,b",
        "arrival_s": "0.0",
        "scheduled_s": "0.0",
        "first_token_s": "1.0",
        "finish_s": "3.0",
        "prompt_tokens": "30",
        "output_tokens": "3",
        "max_tokens": "256",
        "cached_tokens": "0",
        "recomputed_tokens": "0",
        "preemptions": "0",
        "end": "stop",
        "detail": "eos",
        "oracles": "",
    }
    assert (rows["1"]["scheduled_s"], rows["1"]["first_token_s"]) == ("1.0", "2.0")
    assert (rows["2"]["max_tokens"], rows["2"]["finish_s"]) == ("5", "11.0")
    assert (rows["3"]["end"], rows["3"]["finish_s"]) == ("refused", "")
    assert "max_model_len" in rows["3"]["detail"]


def test_summary_has_the_figures(folder: Path) -> None:
    simulate(folder)
    found = summary(folder)
    assert found["requests_arrived"] == 4
    assert (found["finished_stop"], found["requests_refused"]) == (3, 1)
    assert found["simulated_s"] == 11.0
    assert (found["workload"], found["policy"], found["estimator"]) == ("jsonl", "fcfs", "linear")
    assert found["oracles"] == []
    assert found["stopped_by"] == ""
    assert found["ttft_mean_s"] == (1.0 + 1.5 + 1.0) / 3


def test_table_is_that_of_run(folder: Path) -> None:
    output = simulate(folder).output
    for name in ("requests", "time", "output tokens/s", "time to first token", "KV peak"):
        assert f"\n{name} " in f"\n{output}"
    assert "requests               4 of 4 (3 stop, 1 refused)" in output
    assert "time                   11.0 s simulated" in output


def test_equal_inputs_give_equal_files(folder: Path) -> None:
    """For another seed too, another one's."""
    arguments = ("-o", "workload.poisson.num_requests=40", "-o", "workload.poisson.output.mean=20")
    files = []
    for seed in (3, 3, 4):
        assert simulate(folder, "--seed", str(seed), *arguments, workload="poisson").exit_code == 0
        figures = summary(folder)
        assert figures.pop("decision_seconds_mean") > 0  # of the wall clock
        files.append([(folder / "out" / "requests.csv").read_bytes(), figures])
    assert files[0] == files[1] != files[2]


RAISES = """
from batchwright import clock
from batchwright.plugin import SchedulingPolicy, hookimpl
from batchwright.protocols import Observer


class Raises(SchedulingPolicy):
    name = "raises"

    def key(self, request):
        if request.request_id in "{0}":
            raise LookupError(f"no key for {{request.request_id}}")
        return 0


class Slow(SchedulingPolicy):
    name = "slow"

    def key(self, request):
        clock.time.now += 0.05
        return 0


class Counts(Observer):
    name = "counts"
    ends = 0

    def on_finish(self, request):
        self.ends += 1

    def summary(self):
        if self.ctx.path == "observer[1]":
            raise KeyError("nothing")
        return {{"ends": self.ends, "half": 0.5, "by": {{"a": None}}}}


@hookimpl
def batchwright_register_policy():
    return [Raises, Slow]


@hookimpl
def batchwright_register_observer():
    return [Counts]
"""


def with_plugin(folder: Path, *arguments: str, fails: str = "") -> Result:
    (folder / "plugin.py").write_text(RAISES.format(fails))
    return simulate(folder, "-o", 'plugins.load=["./plugin.py"]', *arguments)


def test_run_in_which_every_request_fails_says_why(folder: Path) -> None:
    result = with_plugin(folder, "-o", "scheduler.policy=raises", fails="0123")
    assert result.exit_code == 1
    assert "requests               4 of 4 (3 error, 1 refused)" in result.stdout
    (line,) = [row for row in result.stderr.splitlines() if row.startswith("Error: ")]
    assert line.startswith("Error: no request was served: policy 'raises' (")
    assert "key() raised LookupError: no key for 0" in line
    assert "no key for 0" in summary(folder)["first_failure"]


def test_run_in_which_a_request_fails_is_no_success(folder: Path) -> None:
    result = with_plugin(folder, "-o", "scheduler.policy=raises", fails="1")
    assert result.exit_code == 1
    assert "first failure          policy 'raises' (" in result.stdout
    assert "no request was served" not in result.output


class Watch:
    """A wall clock that stands until a component takes its time."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def slow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """A run whose policy takes 50 ms for each of three keys."""
    watch = Watch()
    monkeypatch.setattr("batchwright.clock.time", watch)
    monkeypatch.setattr("batchwright_engine.phases.wall_seconds", watch.monotonic)
    logging.getLogger("batchwright").setLevel(logging.WARNING)
    options = ("scheduler.policy=slow", "scheduler.slow_component_seconds=0.04")
    return with_plugin(folder, *(part for option in options for part in ("-o", option)))


def test_time_of_a_decision_is_that_of_the_wall_clock(folder: Path, slow: Result) -> None:
    (row,) = re.findall(
        r"^time a decision {8}(.+) ms \(wall clock, (\d) steps\)$", slow.stdout, re.M
    )
    mean, steps = float(row[0]) / 1000, int(row[1])
    assert summary(folder)["decision_seconds_mean"] == pytest.approx(0.15 / steps)
    assert mean == pytest.approx(0.15 / steps, rel=0.01)


def test_slow_components_are_told_by_the_wall_clock(slow: Result, caplog: Any) -> None:
    (told,) = [r.message for r in caplog.get_records("setup") if "slow_comp" in r.message]
    assert told.startswith("policy 'slow' (")
    assert "key() took 0.05 s" in told
    assert slow.exit_code == 0


def test_observers_sum_up(folder: Path, caplog: Any) -> None:
    """In the table and in summary.json; one that raises is a fault, and no more."""
    result = with_plugin(
        folder, "-o", "observer[0].use=counts", "-o", "observer[1].use=counts",
        "-o", "observer[2].use=counts",
    )  # fmt: skip
    assert result.exit_code == 0
    said = {"ends": 3, "half": 0.5, "by": {"a": None}}
    assert summary(folder)["observers"] == {"counts": said, "counts-2": said}
    assert "\ncounts                 ends 3, half 0.5, by (a none)\n" in result.stdout
    assert "summary() raised KeyError: 'nothing' (plugin.py:33); it is disabled" in caplog.text


def test_limit_rate_and_scale(folder: Path) -> None:
    simulate(folder, "--limit", "2")
    assert list(table(folder)) == ["0", "1"]
    simulate(folder, "--scale-rate", "2")
    assert table(folder)["1"]["arrival_s"] == "0.25"
    simulate(folder, "--rate", "0.6")  # the trace has 0.3 a second
    assert table(folder)["2"]["arrival_s"] == "5.0"


def test_rate_and_scale_rate_exclude_each_other(folder: Path) -> None:
    result = simulate(folder, "--rate", "2", "--scale-rate", "3")
    assert result.exit_code == 2
    assert "--rate and --scale-rate say the same" in result.output


def test_rate_needs_a_workload_that_has_one(folder: Path) -> None:
    result = simulate(folder, "--rate", "2", workload="clients")
    assert result.exit_code == 2
    assert "'clients' has none" in result.output


def test_steps_are_written_on_demand(folder: Path) -> None:
    simulate(folder, "--steps")
    lines = (folder / "out" / "steps.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["format"] == "batchwright-decisions"
    assert json.loads(lines[1])["scheduled"] == {"0": [30, 30, 2]}


def test_until_leaves_the_rest_unfinished(folder: Path) -> None:
    result = simulate(folder, "--until", "2.5")
    assert result.exit_code == 0
    assert "Stopped: 2.5 simulated seconds are over." in result.output
    assert list(table(folder)) == ["0", "1"]
    assert summary(folder)["simulated_s"] == 3.0  # the step at hand is finished


def test_overload_ends_with_a_statement(folder: Path) -> None:
    arguments = ("--max-queue", "20", "-o", "workload.constant.rate=10")
    result = simulate(folder, *arguments, workload="constant")
    assert result.exit_code == 3
    assert "Stopped: overload: " in result.output
    assert "requests wait at " in result.output
    assert summary(folder)["stopped_by"].startswith("overload: ")


def test_closed_loop_cannot_be_overloaded(folder: Path) -> None:
    arguments = ("-o", "workload.agents.num_requests=30", "-o", "workload.agents.num_clients=3",
                 "-o", "workload.agents.prompt.most=40",
                 "-o", "workload.agents.tool_output.most=20",
                 "-o", "workload.agents.output.most=10", "-o", "kv.num_blocks=400")  # fmt: skip
    result = simulate(folder, *arguments, workload="agents")
    assert result.exit_code == 0
    rows = table(folder)
    assert len(rows) == 30
    assert sum(int(row["cached_tokens"] or 0) for row in rows.values()) > 0
    assert {row["client"] for row in rows.values()} == {"client-0", "client-1", "client-2"}


def test_closed_loop_goes_on_when_requests_are_refused(folder: Path) -> None:
    """One seat, and no queue: five clients still send all of their requests."""
    arguments = ("-o", "workload.clients.num_requests=40", "-o", "workload.clients.num_clients=5",
                 "-o", "workload.clients.prompt.most=40", "-o", "workload.clients.output.most=40",
                 "-o", "workload.clients.think_time=0.1", "-o", "scheduler.max_num_seqs=1",
                 "-o", "gate[0].use=queue-limit", "-o", "gate[0].requests=1")  # fmt: skip
    assert simulate(folder, *arguments, workload="clients").exit_code == 0
    ends = [row["end"] for row in table(folder).values()]
    assert len(ends) == 40
    assert ends.count("refused") > 10


def test_knowledge_of_the_truth_is_stamped(folder: Path) -> None:
    arguments = ("-o", 'plugins.load=["./asks.py"]', "-o", "scheduler.policy=asks")
    simulate(folder, *arguments, "-o", "scheduler.predictor=oracle")
    assert table(folder)["0"]["oracles"] == "predictor:oracle"
    result = simulate(folder, *arguments, "-o", "simulation.max_tokens=exact",
                      "-o", "simulation.oracle_estimator=true")  # fmt: skip
    assert summary(folder)["oracles"] == ["estimator:linear", "max_tokens:exact"]
    assert "knows too much         estimator:linear, max_tokens:exact" in result.output


def test_another_estimator_than_the_truth_is_no_oracle(folder: Path) -> None:
    (folder / "measured.toml").write_text(
        "base = 1.0\nper_token = 0.0\nper_context_token = 0.0\nper_attention = 0.0\n"
        "per_request = 0.0\n"
    )
    arguments = ("-o", 'plugins.load=["./asks.py"]', "-o", "scheduler.policy=asks")
    simulate(folder, *arguments)
    assert summary(folder)["oracles"] == ["estimator:linear"]  # asked, and it is the truth
    simulate(folder, *arguments, "-o", "simulation.estimator=measured")
    assert summary(folder)["oracles"] == []


def test_oracle_works_in_simulations_alone(folder: Path) -> None:
    from batchwright import ConfigError, Scheduler

    with pytest.raises(ConfigError, match="'oracle' reads true output lengths"):
        Scheduler.from_config({"scheduler": {"predictor": "oracle"}})


def test_noise_is_stated(folder: Path) -> None:
    arguments = ("-o", 'plugins.load=["./asks.py"]', "-o", "scheduler.policy=asks",
                 "-o", "scheduler.predictor=noisy", "-o", "predictor.noisy.sigma=0.8",
                 "-o", "workload.poisson.num_requests=200",
                 "-o", "workload.poisson.output.mean=20")  # fmt: skip
    simulate(folder, *arguments, workload="poisson")
    found = summary(folder)
    assert found["sigma"] == 0.8
    assert found["predicted_requests"] == 200 - found["requests_refused"] > 100
    assert 0.3 < found["kendall_tau"] < 0.8


@pytest.mark.parametrize(
    ("choice", "caps"), [("class", {"256", "5"}), ("exact", {"3", "2", "5"}), ("100", {"100", "5"})]
)
def test_caps_are_chosen_apart_from_lengths(folder: Path, choice: str, caps: set[str]) -> None:
    simulate(folder, "-o", f"simulation.max_tokens={choice}")
    assert {row["max_tokens"] for row in table(folder).values() if row["end"] == "stop"} == caps


def test_drawn_caps_hold_the_answer(folder: Path) -> None:
    arguments = ("-o", "simulation.max_tokens=drawn", "-o", "workload.poisson.num_requests=50",
                 "-o", "workload.poisson.output.mean=300",
                 "-o", "workload.poisson.output.most=1024",
                 "-o", "model.max_model_len=30000",
                 "-o", "kv.num_blocks=4000")  # fmt: skip
    simulate(folder, *arguments, workload="poisson")
    rows = list(table(folder).values())
    assert {int(row["max_tokens"]) for row in rows} == {256, 512, 1024}
    assert {row["end"] for row in rows} == {"stop"}


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("azur:x.csv", "unknown"),
        ("jsonl:nowhere.jsonl", "cannot be read"),
        ("jsonl", "names no file"),
    ],
)
def test_wrong_workload_is_said(folder: Path, workload: str, expected: str) -> None:
    result = simulate(folder, workload=workload)
    assert result.exit_code == 2
    assert expected in result.output or "there is no workload" in result.output


def test_a_workload_from_which_nothing_arrives_is_an_error(folder: Path) -> None:
    (folder / "none.jsonl").write_text("\n")
    empty = simulate(folder, workload=f"jsonl:{folder / 'none.jsonl'}")
    assert (empty.exit_code, empty.output) == (
        2, f"Error: {folder / 'none.jsonl'}: holds no request\n")  # fmt: skip
    (folder / "chunk-0-trace.csv").write_text("0,0,1,Gamma,1,1\n")
    (folder / "chunk-0-dataset.json").write_text(
        '{"0": {"input_tokens": "{1: 1.0}", "output_tokens": "{1: 1.0}"}}'
    )
    idle = simulate(folder, workload=f"servegen:{folder}")
    assert idle.exit_code == 2
    assert "workload.servegen: holds no request that arrives" in idle.output


@pytest.mark.parametrize("option", ["--rate", "--scale-rate", "--until"])
@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1"])
def test_numbers_that_are_none_are_refused(folder: Path, option: str, value: str) -> None:
    result = simulate(folder, option, value, workload="poisson")
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output


def test_no_workload_is_said(folder: Path) -> None:
    result = run("--config", str(folder / "run.toml"))
    assert result.exit_code == 2
    assert "simulation.workload" in result.output
    assert "azure" in result.output


def test_file_alone_is_recognized(folder: Path) -> None:
    assert simulate(folder, workload=str(folder / "trace.jsonl")).exit_code == 0
    (folder / "what.csv").write_text("a,b\n1,2\n")
    result = simulate(folder, workload=str(folder / "what.csv"))
    assert result.exit_code == 2
    assert "is recognized by no workload; say NAME:FILE" in result.output


def test_engines_configuration_can_be_simulated(folder: Path) -> None:
    """The executor and the model that it names are left alone."""
    (folder / "run.toml").write_text(f'[model]\npath = "nowhere"\n{CONFIG}')
    assert simulate(folder).exit_code == 0


def test_memory_of_the_cache_is_in_bytes(folder: Path) -> None:
    (folder / "run.toml").write_text('[kv]\nmemory = "1 GiB"\n')
    result = simulate(folder)
    assert result.exit_code == 0, result.output
    assert "in 511 KV blocks of 16 tokens" in result.output  # 128 KiB a token


def test_interrupt_keeps_what_is_finished(folder: Path) -> None:
    """Ctrl-C: exit code 130, whole lines, a summary."""
    arguments = ["--config", str(folder / "run.toml"), "--workload", "constant",
                 "-o", "workload.constant.num_requests=10000000",
                 "-o", "workload.constant.rate=0.2",
                 "-o", "workload.constant.output.most=4",
                 "--output", str(folder / "out")]  # fmt: skip
    paths = os.pathsep.join([str(ROOT / "core"), str(ROOT / "plugins")])
    process = subprocess.Popen(
        [sys.executable, "-m", "batchwright", "simulate", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    rows = folder / "out" / "requests.csv"
    while not (rows.exists() and rows.stat().st_size > 1000):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped: interrupted." in errors
    found = table(folder)
    assert found
    assert all(row["oracles"] == "" for row in found.values())
    ends = [row["end"] for row in found.values()]
    assert set(ends) <= {"stop", "refused"}
    assert summary(folder)["finished_stop"] == ends.count("stop") > 0


@pytest.mark.parametrize(
    ("observer", "file"), [("request-table", "requests.csv"), ("decision-log", "steps.jsonl")]
)
def test_files_that_are_not_whole_are_said(
    folder: Path, observer: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full ends no run, but what it lacks is no result."""
    cls = PluginManager.discover().find("observer", observer).cls

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cls, "on_finish", full)
    result = simulate(folder, "--steps", "--limit", "50", workload="poisson")
    assert result.exit_code == 1
    assert f"{file} is not whole: {observer!r} failed on the way" in result.output
