"""Files that commands write, and terminals that cannot take every character."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import signal
import stat
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner, Result

from batchwright_cli.main import CommandGroup, main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONFIG = f"""
[model]
path = "none"
max_model_len = 200

[executor]
use = "letters"

[plugins]
load = ['{HERE / "letters.py"}', 'waits.py']

[run]
prompts = "prompts.jsonl"
"""
PROMPTS = [{"prompt": f"Grüße {n} 😀\ud800", "max_tokens": 9 - n} for n in range(6)]
TRACE = [
    {"time": n, "prompt_tokens": 30, "output_tokens": 3, "client": "ä😀", "request_id": f"ü{n}"}
    for n in range(3)
]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'core'}:{ROOT / 'plugins'}"}
OLD = '{"id": "old"}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "waits.py").write_bytes((HERE / "waits.py").read_bytes())
    for name, lines in (("prompts.jsonl", PROMPTS), ("trace.jsonl", TRACE)):
        (tmp_path / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: object, charset: str = "utf-8") -> Result:
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    return CliRunner(charset=charset).invoke(group, list(map(str, arguments)))


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "batchwright", *arguments],
        env=ENVIRONMENT | options.pop("env", {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **{"text": True, **options},
    )


def waiting(*arguments: str, finished: int) -> subprocess.Popen[str]:
    """A process that waits for a signal, so many requests having ended."""
    come, there = os.pipe()
    use = ["-o", "observer[0].use=waits", "-o", f"observer[0].finished={finished}"]
    use += ["-o", f"observer[0].pipe={there}"]
    process = start(*arguments, *use, pass_fds=(there,))
    os.close(there)
    with os.fdopen(come) as pipe:
        assert pipe.readline() == "here\n", process.communicate()
    return process


def stopped(*arguments: str, finished: int, number: int) -> tuple[int, str]:
    """Exit code and messages of a run that got a signal when so many requests had ended."""
    process = waiting("run", "run.toml", *arguments, finished=finished)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def rows(path: Path | str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


def ids(path: Path | str) -> list[str]:
    return [row["id"] for row in rows(path)]


# -- Terminals and pipes ------------------------------------------------------------------


@pytest.mark.parametrize("charset", ["ascii", "latin-1", "utf-8"])
def test_what_standard_output_cannot_take_is_escaped(folder: Path, charset: str) -> None:
    simulate = ("simulate", "--workload", "jsonl:trace.jsonl", "--steps", "--output", "out")
    compare = ("compare", "--workload", "jsonl:trace.jsonl", "--seeds", 1, "-j", 1)
    for arguments in (
        ("run", "run.toml", "--output", "out.jsonl"),
        simulate,
        (*compare, "--output", "ä😀", "--policy", "ä=fcfs", "--policy", "sjf"),
        ("explain", "ü0", "--log", "out/steps.jsonl"),
        ("timeline", "out/steps.jsonl", "--svg", "ä😀.svg", "--perfetto", "ä😀.json"),
        ("replay", "out/steps.jsonl", "--policy", "sjf", "--output", "ä😀.jsonl"),
        ("workload", "describe", "jsonl:trace.jsonl"),
        ("plugins",),
    ):
        done = call(*arguments, charset=charset)
        assert done.exit_code == 0, (arguments, done.output, done.exception)
    assert [row["prompt"] for row in rows("out.jsonl")] == [line["prompt"] for line in PROMPTS]
    assert "Grüße" in Path("out.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("charset", ["ascii", "latin-1", "utf-8"])
def test_results_on_standard_output_are_json_in_any_encoding(folder: Path, charset: str) -> None:
    process = start(
        "run", "run.toml", "--output", "-", env={"PYTHONIOENCODING": charset}, encoding=charset
    )
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    found = [json.loads(line)["prompt"] for line in output.splitlines()]
    assert found == [line["prompt"] for line in PROMPTS]


@pytest.mark.parametrize("charset", ["latin-1", "utf-8"])
def test_shown_configuration_is_toml_in_any_encoding(folder: Path, charset: str) -> None:
    done = call("config", "show", "-o", "run.system=ä \\ 😀", charset=charset)
    assert done.exit_code == 0, done.output
    assert tomllib.loads(done.stdout_bytes.decode())["run"]["system"] == "ä \\ 😀"


def test_name_that_is_no_text_ends_in_a_summary(folder: Path) -> None:
    name = os.fsdecode(b"trace-\xff.jsonl")
    Path("trace.jsonl").rename(name)
    done = call("simulate", "--workload", f"jsonl:{name}", "--output", "out")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("out/summary.json").read_bytes())["requests_arrived"] == 3


# -- What is never written over -----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("prompts.jsonl", "the file of prompts"),
        ("run.toml", "the configuration"),
        ("waits.py", "a plugin of plugins.load"),
    ],
)
@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_file_that_is_read_is_no_output(folder: Path, name: str, what: str, link: Any) -> None:
    before, output = Path(name).read_bytes(), name if link is None else "link"
    if link is not None:
        link(name, "link")
    for option in (("--output", output), ("-o", f"run.output={folder / output}")):
        done = call("run", "run.toml", *option)
        assert (done.exit_code, Path(name).read_bytes()) == (2, before)
        assert f"{output} is {what}, which is read; give another file" in done.output
    observer = ("-o", "observer[0].use=decision-log", "-o", f"observer[0].path={output}")
    done = call("run", "run.toml", *observer)
    assert (done.exit_code, Path(name).read_bytes()) == (2, before)
    assert f"observer[0].path: {output} is {what}" in done.output


@pytest.mark.parametrize("command", ["run", "bench"])
def test_prompts_that_are_named_on_the_command_line_are_no_output(
    folder: Path, command: str
) -> None:
    Path("other.txt").write_text("Hi\n")
    observer = ("-o", "observer[0].use=decision-log", "-o", "observer[0].path=other.txt")
    done = call(command, "run.toml", "--prompts", "other.txt", *observer)
    assert (done.exit_code, Path("other.txt").read_text()) == (2, "Hi\n")


@pytest.mark.parametrize(
    ("command", "name"),
    [("simulate", "requests.csv"), ("simulate", "summary.json"), ("compare", "clients.csv")],
)
def test_workload_is_no_output(folder: Path, command: str, name: str) -> None:
    Path("trace.jsonl").rename(name)
    before = Path(name).read_bytes()
    done = call(command, "--workload", f"jsonl:{name}", "--output", ".")
    assert (done.exit_code, Path(name).read_bytes()) == (2, before)
    assert f"{name} is the file of the workload 'jsonl', which is read" in done.output


def test_calibration_is_not_written_over_what_it_reads(folder: Path) -> None:
    simulate = ("simulate", "--workload", "jsonl:trace.jsonl", "--steps", "--output", "out")
    assert call(*simulate).exit_code == 0
    for name in ("run.toml", "waits.py", "out/steps.jsonl"):
        before = Path(name).read_bytes()
        done = call("calibrate", "run.toml", "--log", "out/steps.jsonl", "--output", name)
        assert (done.exit_code, Path(name).read_bytes()) == (2, before)


def test_no_two_write_one_file(folder: Path) -> None:
    two = ("-o", "observer[0].use=decision-log", "-o", "observer[1].use=request-table")
    same = (*two, "-o", "observer[1].path=decisions.jsonl")
    done = call("simulate", *same, "--workload", "jsonl:trace.jsonl")
    taken = "decisions.jsonl is the file of observer[1]; give another file"
    assert (done.exit_code, f"observer[0].path: {taken}" in done.output) == (2, True)
    twice = (*two[:3], "observer[1].use=decision-log")
    done = call("simulate", *twice, "--workload", "jsonl:trace.jsonl")
    assert (done.exit_code, f"observer[0].path: {taken}" in done.output) == (2, True)
    table = (*two, "-o", "observer[1].path=out/requests.csv")
    Path("out").mkdir()
    for _ in range(2):
        done = call("simulate", *table, "--workload", "jsonl:trace.jsonl", "--output", "out")
        assert "out/requests.csv is the file of observer[1]; give" in done.output
        Path("out/requests.csv").write_text("of an earlier run")
    done = call("run", "run.toml", *table, "--output", "out/requests.csv")
    assert (done.exit_code, Path("out/requests.csv").read_text()) == (2, "of an earlier run")


# -- Devices, FIFOs, links, folders -------------------------------------------------------


def test_fifo_is_written_to_and_not_replaced(folder: Path) -> None:
    os.mkfifo("pipe.jsonl")
    reader = os.open("pipe.jsonl", os.O_RDONLY | os.O_NONBLOCK)
    process = start("run", "run.toml", "--output", "pipe.jsonl")
    output, errors = process.communicate(timeout=60)
    with os.fdopen(reader) as pipe:
        found = [json.loads(line)["id"] for line in pipe]
    assert (process.returncode, found) == (0, [f"line-{n}" for n in range(1, 7)]), errors
    assert stat.S_ISFIFO(Path("pipe.jsonl").stat().st_mode)
    assert "preemptions" in output


def test_terminal_that_is_named_is_written_to(folder: Path) -> None:
    ours, theirs = pty.openpty()
    Path("one.txt").write_text("Hi\n")
    process = start("run", "run.toml", "--prompts", "one.txt", "--output", os.ttyname(theirs))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert json.loads(os.read(ours, 4096))["prompt"] == "Hi"


def test_standard_output_by_name_gets_results_alone(folder: Path) -> None:
    for target in ("/dev/fd/1", "out.jsonl"):
        with Path("out.jsonl").open("wb") as file:
            command = [sys.executable, "-m", "batchwright", "run", "run.toml", "--output", target]
            subprocess.run(command, env=ENVIRONMENT, stdout=file, check=True)
        assert ids("out.jsonl") == [f"line-{n}" for n in range(1, 7)]


def test_link_stays_one_when_its_file_is_written(folder: Path) -> None:
    Path("far").mkdir()
    Path("out.jsonl").symlink_to("far/real.jsonl")
    assert call("run", "run.toml", "--output", "out.jsonl").exit_code == 0
    assert Path("out.jsonl").is_symlink()
    assert len(ids("far/real.jsonl")) == 6


def test_missing_folders_are_made(folder: Path) -> None:
    log = ("-o", "observer[0].use=decision-log", "-o", "observer[0].path=a/log/d.jsonl")
    log += ("-o", "observer[1].use=request-table", "-o", "observer[1].path=a/table/r.csv")
    log += ("-o", "observer[2].use=shadow", "-o", "observer[2].path=a/shadow/s.csv")
    assert call("run", "run.toml", "--output", "b/c/out.jsonl", *log).exit_code == 0
    drawn = ("--svg", "d/t.svg", "--perfetto", "e/t.json")
    assert call("timeline", "a/log/d.jsonl", *drawn).exit_code == 0
    done = call("calibrate", "run.toml", "--log", "a/log/d.jsonl", "--output", "f/m.toml")
    assert done.exit_code == 0, done.output
    assert call("new", "gate", "mine", "--output", "g/h").exit_code == 0
    made = ("a/table/r.csv", "a/shadow/s.csv", "b/c/out.jsonl", "d/t.svg", "e/t.json", "f/m.toml")
    assert [name for name in (*made, "g/h/pyproject.toml") if not Path(name).is_file()] == []


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (".", "is a folder; a file is expected"),
        (
            "prompts.jsonl/out.jsonl",
            "cannot be written: it is a file: prompts.jsonl cannot be made",
        ),
        ("/proc/out.jsonl", "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_said_before_a_model_is_loaded(
    folder: Path, output: str, said: str
) -> None:
    done = call("run", "run.toml", "--output", output, "-o", "executor.letters.seconds=60")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


# -- Runs that are cut off ----------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_run_that_is_cut_off_keeps_the_results_of_the_first(
    folder: Path, number: int
) -> None:
    Path("out.jsonl").write_text(OLD)
    code, said = stopped("--output", "out.jsonl", finished=2, number=number)
    assert code == 128 + number, said
    assert Path("out.jsonl").read_text() == OLD
    assert ids("out.jsonl.part") == ["line-5", "line-6"]
    assert "2 results in out.jsonl.part; out.jsonl is as the run before" in said
    assert "2 of 6 requests were finished and are kept." in said
    done = call("run", "run.toml", "--output", "out.jsonl")
    assert done.exit_code == 2
    assert "out.jsonl.part: holds the results of a run that was cut off" in done.stderr


def test_first_run_that_is_cut_off_has_what_is_finished(folder: Path) -> None:
    code, said = stopped("--output", "out.jsonl", finished=2, number=signal.SIGTERM)
    assert (code, ids("out.jsonl")) == (143, ["line-5", "line-6"]), said
    assert not Path("out.jsonl.part").exists()


def test_run_without_output_does_not_claim_to_keep_results(folder: Path) -> None:
    code, said = stopped(finished=3, number=signal.SIGTERM)
    assert code == 143, said
    assert "3 of 6 requests were finished and are not kept: there is no --output." in said


def test_interrupted_bench_has_no_figures(folder: Path) -> None:
    """The signal comes while the prompts are answered to warm up."""
    process = waiting("bench", "run.toml", finished=2)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.splitlines()[-1]) == (143, "", "Interrupted.")


@pytest.mark.parametrize(
    ("number", "left"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, 1)]
)
def test_run_that_ends_while_it_loads_stops_no_other(folder: Path, number: int, left: int) -> None:
    code, said = stopped("--output", "out.jsonl", finished=0, number=number)
    assert code == (-9 if left else 128 + number), said
    assert ("Interrupted." in said) is not bool(left)
    assert len(list(folder.glob("out.jsonl*"))) == left
    assert call("run", "run.toml", "--output", "out.jsonl").exit_code == 0
    assert [path.name for path in folder.glob("out.jsonl*")] == ["out.jsonl"]


def test_two_runs_do_not_write_one_file(folder: Path) -> None:
    first = waiting("run", "run.toml", "--output", "out.jsonl", finished=0)
    second = call("run", "run.toml", "--output", "out.jsonl")
    first.terminate()
    first.communicate(timeout=60)
    assert second.exit_code == 2
    assert "out.jsonl.part: is written by a run that still goes on" in second.stderr


def test_second_simulation_that_is_cut_off_keeps_the_files_of_the_first(folder: Path) -> None:
    simulate = ["simulate", "--config", "run.toml", "--steps", "--output", "out"]
    simulate += ["--workload", "jsonl:trace.jsonl", "-o", "executor.use=auto"]
    assert call(*simulate).exit_code == 0
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    first = before.copy()
    process = waiting(*simulate, finished=2)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert before == {name: (Path("out") / name).read_bytes() for name in before}
    assert len((Path("out") / "requests.csv.part").read_text().splitlines()) == 3
    assert "the files of an earlier run are unchanged" in said
    assert call(*simulate).exit_code == 0
    again = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    for files in (first, again):  # the time of a decision is measured anew
        files["summary.json"] = re.sub(rb'"decision_seconds_mean".*', b"", files["summary.json"])
    assert first == again


# -- Disks that are full ------------------------------------------------------------------


def full_after(num_bytes: int) -> dict[str, Any]:
    """A file may have so many bytes, as on a disk that is full."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
    return {"preexec_fn": limit, "env": {"PYTHONDONTWRITEBYTECODE": "1"}}


def test_full_disk_costs_no_result(folder: Path) -> None:
    Path("out.jsonl").write_text(OLD)
    process = start("run", "run.toml", "--output", "out.jsonl", **full_after(1000))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.splitlines()[-1] == (
        "Error: out.jsonl: cannot be written: File too large; results that were finished "
        "before are kept"
    )
    assert Path("out.jsonl").read_text() == OLD
    assert [path.name for path in sorted(folder.glob("out*"))] == ["out.jsonl", "out.jsonl.part"]
    assert ids("out.jsonl.part") == ["line-5", "line-6"]


def test_full_disk_leaves_files_that_are_made_of_others(folder: Path) -> None:
    simulate = ("simulate", "--workload", "jsonl:trace.jsonl", "--steps", "--output", "out")
    assert call(*simulate).exit_code == 0
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    drawn = ["timeline", "out/steps.jsonl", "--svg", "t.svg"]
    for arguments, said in (
        (drawn, "Error: t.svg: File too large"),
        (list(simulate), "Error: out/summary.json.part: File too large"),
    ):
        process = start(*arguments, **full_after(64))
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors.splitlines()[-1]) == (1, said)
    assert [path.name for path in folder.glob("t.svg*")] == []
    assert before == {name: (Path("out") / name).read_bytes() for name in before}


# -- Rows of results ----------------------------------------------------------------------


def test_refused_and_failed_rows_have_the_keys_of_answered_ones(folder: Path) -> None:
    lines = [{"prompt": p, "logprobs": 2, "max_tokens": 3} for p in ("fine", "x" * 300)]
    lines.append({**lines[0], "messages": [{"role": "nobody", "content": "?"}]})
    del lines[2]["prompt"]
    Path("prompts.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert call("run", "run.toml", "--output", "out.jsonl").exit_code == 0
    fine, long, odd = rows("out.jsonl")
    assert [row["finish_reason"] for row in (fine, long, odd)] == ["length", "refused", "refused"]
    assert list(fine) == list(long)
    assert list(odd) == [{"prompt": "messages"}.get(key, key) for key in fine]
    for key in ("timings", "counts"):
        assert list(fine[key]) == list(long[key]) == list(odd[key])
    assert set(long["timings"].values()) == {None}
    assert (long["text"], long["token_ids"], long["logprobs"]) == ("", [], [])
    assert (long["counts"]["num_output_tokens"], long["counts"]["num_prompt_tokens"]) == (0, None)


def test_row_of_a_request_that_fails_has_the_keys_of_the_others(folder: Path) -> None:
    """A gate that raises for one request ends that request."""
    gate = """
        from batchwright.plugin import Gate, hookimpl
        from batchwright.verdicts import ADMIT

        class Odd(Gate):
            name = "odd"

            def pre_filter(self, request, view):
                return 1 / 0 if request.num_prompt_tokens > 100 else ADMIT

        @hookimpl
        def batchwright_register_gate():
            return [Odd]
    """
    Path("waits.py").write_text(dedent(gate))
    lines = [{"prompt": p, "logprobs": 2, "max_tokens": 3} for p in ("fine", "x" * 150)]
    Path("prompts.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert call("run", "run.toml", "--output", "o", "-o", "gate[1].use=odd").exit_code == 1
    fine, failed = rows("o")
    assert (fine["finish_reason"], failed["finish_reason"]) == ("length", "error")
    assert list(fine) == list(failed)
    assert [list(fine[key]) for key in ("timings", "counts")] == [
        list(failed[key]) for key in ("timings", "counts")
    ]
