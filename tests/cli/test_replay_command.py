"""``batchwright replay``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from batchwright_cli.main import CommandGroup, main
from batchwright_lab.recording.decision import Decision
from batchwright_lab.replay.replay_drive import ReplayDrive
from batchwright_plugins.observer.decision_log import DecisionLog

CONFIG = """\
[scheduler]
max_num_seqs = 2

[estimator.linear]
base = 1.0
per_token = 0.0
per_context_token = 0.0
per_attention = 0.0
"""
TRACE = """\
{"time": 0, "prompt_tokens": 30, "output_tokens": 4, "client": "ada"}
{"time": 0, "prompt_tokens": 30, "output_tokens": 4, "client": "ada"}
{"time": 0.5, "prompt_tokens": 90, "output_tokens": 6, "priority": 1}
{"time": 0.5, "prompt_tokens": 10, "output_tokens": 2, "slo_class": "chat"}
"""
HEADER = (
    '{"format":"batchwright-decisions","version":2,"block_size":16,"num_usable_blocks":9,'
    '"max_num_seqs":2,"max_num_batched_tokens":99,"max_model_len":99}\n'
)
SHORTEST = """
from batchwright.plugin import SchedulingPolicy, hookimpl


class Shortest(SchedulingPolicy):
    name = "shortest"

    def key(self, request):
        return request.num_prompt_tokens


@hookimpl
def batchwright_register_policy():
    return [Shortest]
"""


def run(*arguments: object) -> Result:
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Four requests on two seats, a second a step: the long third stands before the short."""
    (tmp_path / "run.toml").write_text(CONFIG)
    (tmp_path / "trace.jsonl").write_text(TRACE)
    (tmp_path / "shortest.py").write_text(SHORTEST)
    done = run(
        "simulate", "--config", tmp_path / "run.toml", "--steps", "--output", tmp_path / "out",
        "--workload", f"jsonl:{tmp_path / 'trace.jsonl'}", "-o", "scheduler.max_num_seqs=1",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return tmp_path / "out" / "steps.jsonl"


def changed(log: Path, change: Any) -> Path:
    """A log of which a function has changed the lines."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    change(lines)
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return log


def test_says_what_differs_first_and_what_changes(log: Path) -> None:
    result = run("replay", log, "--policy", f"shortest={log.parent.parent / 'shortest.py'}")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "recorded fcfs: 4 requests, 16 steps" in text
    assert "replayed shortest: 4 requests, 16 steps" in text
    assert "as recorded for 4 steps; then estimator 'linear', off by 0.0% (median)" in text
    assert (
        "First difference: step 4, at 4.000 s. recorded admits '1' schedules '1' 30, '3' 0" in text
    )
    assert "replayed admits '3' schedules '3' 10, '1' 0" in text
    assert "By end-to-end latency 1 gained, 2 lost, 1 did as before." in text
    assert "client ada: 0 gained, 1 lost, 1 did as before; mean gain -1.000 s" in text
    assert "slo_class chat: 1 gained, 0 lost, 0 did as before; mean gain +10.000 s" in text


def test_writes_the_new_log_and_a_line_a_request(log: Path) -> None:
    run("replay", log, "--policy", f"shortest={log.parent.parent / 'shortest.py'}")
    with log.with_name("steps-shortest.csv").open(newline="") as file:
        rows = {row["request_id"]: row for row in csv.DictReader(file)}
    assert rows["3"]["slo_class"] == "chat"
    assert float(rows["3"]["e2e_s_before"]) == 15.5
    assert float(rows["3"]["e2e_s_after"]) == 5.5
    assert float(rows["2"]["ttft_s_before"]) == 8.5
    assert float(rows["2"]["ttft_s_after"]) == 10.5
    assert [row["verdict"] for row in rows.values()] == ["same", "lost", "lost", "gained"]
    header = json.loads(log.with_name("steps-shortest.jsonl").read_text().splitlines()[0])
    assert header["config"]["scheduler"]["policy"] == "shortest"


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("{}", "shortest"),
        ("{}:shortest", "shortest"),
        ("mine={}", "mine"),
        ("mine=priority", "mine"),
    ],
)
def test_a_policy_is_named_as_for_compare(log: Path, form: str, name: str) -> None:
    """A file, one of its policies, a label: the label names what is written."""
    result = run("replay", log, "--policy", form.format(log.parent.parent / "shortest.py"))
    assert result.exit_code == 0, result.output
    assert log.with_name(f"steps-{name}.csv").exists()


def test_a_file_without_that_policy_is_refused(log: Path) -> None:
    policy = f"{log.parent.parent / 'shortest.py'}:longest"
    result = run("replay", log, "--policy", policy)
    assert result.exit_code == 2
    assert "offers no policy 'longest'" in result.output


def test_without_a_policy_it_repeats_byte_for_byte(log: Path) -> None:
    result = run("replay", log)
    assert result.exit_code == 0, result.output
    assert "Every decision is the recorded one." in result.output
    assert log.with_name("steps-again.jsonl").read_bytes() == log.read_bytes()


def test_from_a_step_on(log: Path) -> None:
    """The recorded policy has admitted the long one when the other takes over."""
    policy = f"shortest={log.parent.parent / 'shortest.py'}"
    result = run("replay", log, "--policy", policy, "--from-step", 9)
    assert result.exit_code == 0, result.output
    assert "shortest from step 9 on" in result.output
    assert "Every decision is the recorded one." in result.output


def test_victims_go_with_their_policies(log: Path) -> None:
    """fcfs lets the last one yield, priority the least urgent: both are handed over."""
    result = run("replay", log, "--policy", "priority", "--from-step", 4)
    assert result.exit_code == 0, result.output
    assert "priority from step 4 on" in result.output


WATCHERS = """
from batchwright.plugin import SchedulingPolicy, hookimpl


class ByName(SchedulingPolicy):
    name = "by-name"

    def account(self, request):
        return request.request_id


class Deaf(SchedulingPolicy):
    name = "deaf"

    def on_add(self, request):
        raise RuntimeError("what?")


class Odd(SchedulingPolicy):
    name = "odd"

    def key(self, request):
        return float("nan")


@hookimpl
def batchwright_register_policy():
    return [ByName, Deaf, Odd]
"""


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("by-name", "fair and by-name keep different accounts"),
        ("deaf", "on_add() raised RuntimeError: what?"),
        ("odd", "queue.add() raised ValueError: a key must not contain NaN"),
    ],
)
def test_who_cannot_watch_is_blamed(log: Path, policy: str, said: str) -> None:
    """By its own name, and not by that of what hosts it while another one decides."""
    fair = log.with_name("fair.jsonl")
    assert run("replay", log, "--policy", "fair", "--output", fair).exit_code == 0
    (log.parent / "watchers.py").write_text(WATCHERS)
    chosen = f"{log.parent / 'watchers.py'}:{policy}"
    result = run("replay", fair, "--policy", chosen, "--from-step", 3)
    assert result.exit_code == 1
    assert "up to step 3 one policy decides and the other one watches" in result.output
    assert said in result.output
    assert "Leave out --from-step" in result.output


def test_overrides_hold_from_the_first_step_on(log: Path) -> None:
    result = run("replay", log, "--from-step", 9, "-o", "scheduler.max_num_seqs=2")
    assert result.exit_code == 1
    assert "What -o changes holds from step 0 on: leave out -o, or --from-step" in result.output


def test_overrides_change_the_recorded_configuration(log: Path) -> None:
    result = run(
        "replay", log, "-o", "scheduler.max_num_seqs=2", "--output", log.parent / "2/a.jsonl"
    )
    assert result.exit_code == 0, result.output
    assert "First difference: step 0" in result.output
    assert (log.parent / "2" / "a.csv").exists()


def test_a_default_follows_the_value_that_an_override_changes(log: Path) -> None:
    """A larger budget than the recorded one is used; a smaller one is no contradiction."""
    steps = log.parent / "budget"
    arguments = ("simulate", "--config", log.parent.parent / "run.toml", "--steps")
    workload = ("--workload", f"jsonl:{log.parent.parent / 'trace.jsonl'}")
    budget = "scheduler.max_num_batched_tokens"
    done = run(*arguments, *workload, "--output", steps, "-o", f"{budget}=32")
    assert done.exit_code == 0, done.output
    header = json.loads((steps / "steps.jsonl").read_text().splitlines()[0])
    assert header["config"]["scheduler"] == {"max_num_batched_tokens": 32, "max_num_seqs": 2}
    for tokens, granted in ((64, "schedules '1' 30"), (16, "schedules '0' 16")):
        result = run("replay", steps / "steps.jsonl", "-o", f"{budget}={tokens}")
        assert result.exit_code == 0, result.output
        assert "First difference: step 0" in result.output
        assert granted in result.output


def test_a_last_line_that_is_cut_is_left_out(log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-4]) + lines[-4][:20])
    result = run("replay", log)
    assert result.exit_code == 0, result.output
    assert "2 requests when the log ends, and the replay" in result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no decision log"),
        ("hello\n", "is no decision log: its first line is no header of one"),
        ("", "is no decision log"),
        ('{"format":"batchwright-decisions","version":9}\n', "of version 9"),
        ('{"format":"batchwright-decisions","version":2}\n', "its header says no block_size"),
        (HEADER + "{x\n{}\n", "log.jsonl:2: is no JSON"),
        (HEADER, "lacks the configuration"),
        (
            HEADER + "[1]\n",
            "log.jsonl:2: does not go with the lines before it (expected an object)",
        ),
        (HEADER + '{"step":"x"}\n', "before it (step: expected the number of a step)"),
        (HEADER + '{"step":0,"time":NaN}\n', "(time: expected a time in seconds)"),
        (HEADER + '{"step":0,"time":1e400}\n', "(time: expected a time in seconds)"),
        (HEADER.replace("}", ',"config":[1]}'), "has as config is no configuration"),
        (HEADER.replace("}", ',"config":{"scheduler":7}}'), "has as config is no configuration"),
        (HEADER.replace("}", ',"config":{},"folder":7}'), "has as folder is no path"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "log.jsonl"
    if text is not None:
        path.write_text(text)
    result = run("replay", path)
    assert result.exit_code == 2
    assert said in result.output


def no_lengths(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        line["finished"] = {name: what[:2] for name, what in line.get("finished", {}).items()}


def with_feature(lines: list[dict[str, Any]]) -> None:
    lines[1]["added"]["0"][3]["features"] = ["lora"]


def configured_feature(lines: list[dict[str, Any]]) -> None:
    lines[0]["config"]["feature"] = [{"use": "lora"}]


def lost_executor(lines: list[dict[str, Any]]) -> None:
    lines[2]["waits"] = {"0": "preempted (executor)"}
    del lines[2]["decode_batch"], lines[3:]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[0].pop("config"), "lacks the configuration (an older version"),
        (no_lengths, "lacks output lengths"),
        (with_feature, "lacks what features were told (request '0')"),
        (configured_feature, "lacks what features did in the executor"),
        (lost_executor, "lacks how the executor failed (step 1)"),
        (lambda lines: lines.__delitem__(slice(1, None)), "lacks any step"),
    ],
)
def test_a_log_without_what_is_needed_is_refused(log: Path, change: Any, said: str) -> None:
    result = run("replay", changed(log, change))
    assert result.exit_code == 2
    assert said in result.output


def test_an_unknown_policy_is_refused(log: Path) -> None:
    for more in ((), ("--from-step", 2)):
        result = run("replay", log, "--policy", "fcsf", *more)
        assert result.exit_code == 2
        assert "did you mean 'fcfs'?" in result.output.replace("Did", "did")


def test_a_step_that_the_log_does_not_have_is_refused(log: Path) -> None:
    result = run("replay", log, "--policy", "priority", "--from-step", 16)
    assert result.exit_code == 1
    assert "--from-step 16: the log has 16 steps, from 0 on" in result.output


def test_the_log_is_not_written_over(log: Path) -> None:
    result = run("replay", log, "--output", log)
    assert result.exit_code == 2
    assert "steps.jsonl is the decision log, which is read; give another file" in result.output


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("steps.csv", "steps.csv: is written twice; give another file"),
        ("/dev/null", "--output /dev/null is no file"),
    ],
)
def test_where_a_log_cannot_be_kept_it_is_not_written(log: Path, output: str, said: str) -> None:
    result = run("replay", log, "--output", log.parent / output)
    assert result.exit_code in (1, 2)
    assert said in result.output


def test_a_policy_whose_name_is_a_path_is_refused_by_name(log: Path) -> None:
    result = run("replay", log, "--policy", "../x")
    assert result.exit_code == 2
    assert "there is no policy '../x'" in result.output


def slower(lines: list[dict[str, Any]]) -> None:
    """Steps that take three seconds each, as no estimator here says."""
    for line in lines[1:]:
        line["time"] *= 3


def test_an_estimator_that_does_not_fit_is_not_believed(log: Path) -> None:
    changed(log, slower)
    result = run("replay", log, "--policy", "priority")
    assert result.exit_code == 1
    assert "'linear' is off by 67% (median) on the recorded ones" in result.output
    assert run("replay", log).exit_code == 0  # nothing is estimated
    result = run("replay", log, "--policy", "priority", "--trust-estimator")
    assert result.exit_code == 0, result.output


def test_an_estimator_that_was_fitted_as_advised_is_believed(log: Path) -> None:
    """The output of ``calibrate`` beside the run's TOML file is found from there."""
    changed(log, slower)
    fitted = run("calibrate", log.parent.parent / "run.toml", "--log", log)
    assert fitted.exit_code == 0, fitted.output
    estimator = ("-o", "simulation.estimator=measured")
    result = run("replay", log, "--policy", "priority", *estimator)
    assert result.exit_code == 0, result.output
    assert "then estimator 'measured', off by" in " ".join(result.output.split())


def test_a_run_that_is_not_repeated_is_an_error(log: Path) -> None:
    """A log that claims what its configuration would not have decided."""

    def lie(lines: list[dict[str, Any]]) -> None:
        lines[2]["preempted"] = {"0": "0"}
        del lines[2]["decode_batch"], lines[3:]

    result = run("replay", changed(log, lie))
    assert result.exit_code == 1
    assert "the recorded run cannot be repeated: at step 1" in result.output


def test_a_log_that_contradicts_itself_is_damaged(log: Path) -> None:
    def haunted(lines: list[dict[str, Any]]) -> None:
        lines[2]["admitted"] = {"ghost": 0}
        lines[2]["decode_batch"] += 1

    result = run("replay", changed(log, haunted))
    assert result.exit_code == 2
    assert ":3: does not go with the lines before it (no request 'ghost' lives)" in result.output


def test_a_log_that_lacks_a_line_is_damaged(log: Path) -> None:
    result = run("replay", changed(log, lambda lines: lines.__delitem__(1)))
    assert result.exit_code == 2
    assert (
        ":2: does not go with the lines before it (0 requests are in the decode batch, not 1)"
        in result.output
    )


def test_a_log_that_could_not_be_written_is_not_compared(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full: the observer is left out, and the rest of the run not recorded."""
    write = DecisionLog._write

    def full(self: Any, line: dict[str, Any]) -> None:
        if line.get("step") == 7:
            raise OSError(28, "No space left on device")
        write(self, line)

    monkeypatch.setattr(DecisionLog, "_write", full)
    result = run("replay", log)
    assert result.exit_code == 1
    assert "steps-again.jsonl has 7 of 16 steps: an observer failed" in result.output


def test_an_interrupted_replay_keeps_what_it_has(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = ReplayDrive._step

    def interrupted(self: Any) -> None:
        step(self)
        if self._pace.num_steps == 5:
            self.stop(2)

    monkeypatch.setattr(ReplayDrive, "_step", interrupted)
    result = run("replay", log)
    assert result.exit_code == 130
    assert "stopped          interrupted" in result.output
    assert len(log.with_name("steps-again.jsonl").read_text().splitlines()) >= 6


def test_requests_that_fail_now_are_told_and_end_with_1(log: Path, tmp_path: Path) -> None:
    body = "1 / (request.num_prompt_tokens != 90)"
    policy = tmp_path / "fails.py"
    policy.write_text(SHORTEST.replace("request.num_prompt_tokens", body))
    result = run("replay", log, "--policy", policy)
    assert result.exit_code == 1
    told = (
        f"failed now       1 of 4 requests, the first: policy 'shortest' ({policy}): key() raised"
    )
    assert told in result.output
    policy.write_text(SHORTEST.replace("request.num_prompt_tokens", "exit()"))
    assert run("replay", log, "--policy", policy).exit_code == 1
    result = run("replay", log, "-o", "model.max_model_len=8")
    assert (result.exit_code, "refused now      4 of 4 requests" in result.output) == (1, True)


def test_requests_that_are_refused_now_are_counted(log: Path) -> None:
    result = run("replay", log, "-o", "gate[0].use=queue-limit", "-o", "gate[0].requests=1")
    assert result.exit_code == 0, result.output
    assert "refused now" in result.output


def test_decisions_differ_in_grants_hits_order_and_preemption() -> None:
    one = Decision({"a": 3, "b": 4}, {"a": 16, "b": 0}, ())
    same = Decision({"b": 4, "a": 3}, {"a": 16, "b": 0}, ())
    assert one.is_like(same)
    assert list(one.told(same)) == []
    other = Decision({"a": 3, "b": 4}, {"b": 0, "a": 0}, ("c",))
    assert not one.is_like(other)
    assert list(other.told(one)) == [
        "admits 'b', 'a'", "finds 0 tokens of 'a' cached", "preempts 'c'"
    ]  # fmt: skip
    many = Decision({str(n): 1 for n in range(8)}, {}, ())
    assert list(many.told(Decision({}, {}, ()))) == [
        "schedules '0' 1, '1' 1, '2' 1, '3' 1, '4' 1, '5' 1 and 2 more"
    ]


def test_runs_python_that_a_log_names_only_if_it_is_trusted(log: Path, tmp_path: Path) -> None:
    """A log is data: the file that its header names leaves a trace if it is run."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{SHORTEST}")

    def load(lines: list[dict[str, Any]]) -> None:
        lines[0]["config"]["plugins"] = {"load": [str(tmp_path / "evil.py")]}

    refused = run("replay", changed(log, load))
    assert refused.exit_code == 2
    assert f"would run again: {tmp_path / 'evil.py'}" in refused.output
    assert "--trust-plugins" in refused.output
    perfetto = ("--perfetto", tmp_path / "x.json")
    for command in (("explain", "1", "--log", log), ("timeline", log, *perfetto)):
        assert run(*command).exit_code == 0
    assert not (tmp_path / "ran").exists()
    assert run("replay", log, "-o", "plugins.load=[]").exit_code == 0
    assert not (tmp_path / "ran").exists()
    assert run("replay", log, "--trust-plugins").exit_code == 0
    assert (tmp_path / "ran").exists()
