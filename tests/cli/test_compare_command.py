"""``batchwright compare``: cells, files, what it keeps, what it refuses, who fails by name."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from batchwright_cli.main import CommandGroup, main
from batchwright_lab.comparison.report.page import _runtime
from batchwright_lab.comparison.wording import TIMES

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
[scheduler]
max_num_seqs = 2
max_num_batched_tokens = 64

[kv]
num_blocks = 60

[estimator.linear]
base = 1.0
per_token = 0.0
per_context_token = 0.0
per_attention = 0.0

[workload.poisson]
num_requests = 12
num_clients = 2
prompt = { mean = 30.0, most = 64 }
output = { mean = 4.0, most = 8 }
"""
TRACE = """\
{"time": 0, "prompt_tokens": 30, "output_tokens": 6, "client": "a", "slo_class": "batch"}
{"time": 0, "prompt_tokens": 30, "output_tokens": 6, "client": "a", "slo_class": "batch"}
{"time": 1.5, "prompt_tokens": 60, "output_tokens": 4, "client": "a", "slo_class": "batch"}
{"time": 2.5, "prompt_tokens": 10, "output_tokens": 2, "client": "b", "slo_class": "chat"}
"""
POLICIES = """
import os

from batchwright.plugin import SchedulingPolicy, hookimpl


class Shortest(SchedulingPolicy):
    name = "shortest"

    def key(self, request):
        return request.num_prompt_tokens


class Raises(SchedulingPolicy):
    name = "raises"

    def key(self, request):
        raise LookupError("no key for this")


class Lies(SchedulingPolicy):
    name = "lies"

    def key(self, request):
        return 0

    def running_to_preempt(self, view):
        return ["nobody"]


class Dies(SchedulingPolicy):
    name = "dies"

    def key(self, request):
        os._exit(7)


class Starves(SchedulingPolicy):
    name = "starves"

    def key(self, request):
        return -request.arrival_time


@hookimpl
def batchwright_register_policy():
    return [Shortest, Raises, Lies, Dies, Starves]
"""


def run(*arguments: str) -> Result:
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    return CliRunner().invoke(group, ["compare", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG)
    (tmp_path / "trace.jsonl").write_text(TRACE)
    (tmp_path / "policies.py").write_text(POLICIES)
    return tmp_path


def compare(folder: Path, *arguments: str, workload: str = "poisson", jobs: int = 1) -> Result:
    return run(
        "--config", str(folder / "run.toml"), "--workload", workload, "-j", str(jobs),
        "--output", str(folder / "out"), *arguments,
    )  # fmt: skip


def on_trace(folder: Path, *arguments: str) -> Result:
    return compare(folder, "--seeds", "1", *arguments, workload=f"jsonl:{folder / 'trace.jsonl'}")


def table(folder: Path, name: str = "cells.csv") -> list[dict[str, str]]:
    with (folder / "out" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "out/cells").iterdir())]


def products(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir() if path.is_file()}


def shown(folder: Path) -> str:
    return (folder / "out" / "report.html").read_text(encoding="utf-8")


def test_figures_are_exact(folder: Path) -> None:
    """Two seats, a second a step: the third waits until 6; shortest takes the fourth first."""
    arguments = ("--policy", "fcfs", "--policy", f"{folder / 'policies.py'}:shortest")
    result = on_trace(folder, *arguments, "--target", "chat:ttft=4", "--target", "batch:ttft=5")
    assert result.exit_code == 0, result.output
    fcfs, shortest = table(folder)
    assert (fcfs["policy"], shortest["policy"]) == ("fcfs", "shortest")
    assert {fcfs["arrived"], fcfs["ended"], shortest["ended"]} == {"4"}
    times = ("ttft_mean", "e2e_mean", "duration", "attainment", "in_time_chat", "passed_over_max")
    # fcfs: first tokens at 1, 1, 7, 8 (at 6, 4 of the fourth's 10 prompt tokens fit)
    assert [float(fcfs[name]) for name in times] == [
        (1 + 1 + 5.5 + 5.5) / 4, (6 + 6 + 8.5 + 6.5) / 4, 10.0, 0.5, 0.0, 0.0,
    ]  # fmt: skip
    # shortest: the fourth at 7, the third's rest one step later
    assert [float(shortest[name]) for name in times] == [
        (1 + 1 + 6.5 + 4.5) / 4, (6 + 6 + 9.5 + 5.5) / 4, 11.0, 0.5, 0.0, 0.0,
    ]  # fmt: skip


def test_answer_comes_first(folder: Path) -> None:
    result = on_trace(folder, "--policy", "fcfs", "--policy", f"{folder / 'policies.py'}:shortest")
    best, pairs, _, caption, *table, _, thin, where = result.stdout.splitlines()
    assert best == (
        "These seeds do not tell fcfs from shortest by E2E mean: 6.75 s, "
        "against 6.75 s under shortest."
    )
    assert pairs.endswith("of fcfs, better in 0 and worse in 0 of 1 paired runs.")
    assert caption.startswith("Ranked by E2E mean beside fcfs; latencies are means over seeds, of")
    assert [line.split()[:8] for line in table] == [
        ["policy", "E2E", "mean", "of", "fcfs", "better", "in", "TTFT"],
        ["1.", "fcfs", "6.75", "s", "baseline", "5.50", "s", "1.00"],
        ["2.", "shortest", "6.75", "s", f"1.00{TIMES}", "0", "of", "1"],
    ]
    assert thin.startswith("Of 4 requests that ended, 2 beyond p50, 0 beyond p90, 0 beyond p99:")
    assert where == f"2 of 2 cells: {folder / 'out' / 'report.html'}"


def test_grid_is_policies_times_values_times_rates_times_seeds(folder: Path) -> None:
    result = compare(
        folder, "--policy", "fcfs", "--policy", "short=sjf", "--rates", "2,0.5", "--seeds", "2",
        "--vary", "scheduler.max_num_seqs=1,2", jobs=2,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    places = [(r["policy"], r["variation"], r["rate"], r["seed"]) for r in table(folder)]
    assert places == [
        (policy, f"max_num_seqs={seats}", rate, seed)
        for policy in ("fcfs", "short")
        for seats in (1, 2)
        for rate in ("0.5", "2.0")
        for seed in ("0", "1")
    ]
    assert set(products(folder)) == {
        "cells.csv", "clients.csv", "summary.csv", "report.html", "figure-1.svg", "figure-2.svg",
        "figure-1-dark.svg", "figure-2-dark.svg", "figure-along-1.svg", "figure-along-1-dark.svg",
    }  # fmt: skip


def test_chance_is_paired(folder: Path) -> None:
    """A seed's requests are the same for all policies and, but for their pace, at all rates."""
    compare(
        folder, "--policy", "fcfs", "--policy", "fair", "--rates", "1,2", "--seeds", "2", jobs=2
    )
    found: dict[Any, Any] = {}
    for record in records(folder):
        names = ("id", "arrival", "prompt_tokens", "output_tokens", "client")
        rows = sorted(zip(*(record["requests"][name] for name in names), strict=True))
        scaled = [(row[0], round(row[1] * record["rate"], 9), *row[2:]) for row in rows]
        assert found.setdefault(record["seed"], scaled) == scaled
    assert found[0] != found[1]
    assert len(found[0]) == 12


def test_what_is_done_is_not_run_again_and_files_are_equal(folder: Path) -> None:
    arguments = ("--policy", "fcfs", "--policy", "sjf", "--seeds", "2", "--rates", "1")
    assert "[4/4]" in compare(folder, *arguments, jobs=2).stderr
    before = products(folder)
    again = compare(folder, *arguments, "--rank-by", "e2e_mean")
    assert again.stderr == "4 of 4 cells are done already\n"
    assert products(folder) == before
    for path in (folder / "out" / "cells").iterdir():
        path.unlink()
    compare(folder, *arguments)  # anew, in another order
    assert products(folder) == before


def test_changed_options_and_files_are_run_anew(folder: Path) -> None:
    arguments = ("--policy", "fcfs", "--policy", f"{folder / 'policies.py'}:shortest")
    assert "[2/2]" in on_trace(folder, *arguments).stderr
    assert "2 of 2" in on_trace(folder, *arguments, "--target", "ttft=1").stderr  # no cell's matter
    assert "[1/2]" in on_trace(folder, *arguments, "-o", "kv.num_blocks=50").stderr
    assert "[1/2]" in on_trace(folder, *arguments, "--limit", "3").stderr
    (folder / "policies.py").write_text(POLICIES + "\n")
    changed = on_trace(folder, *arguments).stderr
    assert changed.startswith("1 of 2 cells are done already\n[2/2] shortest")
    (folder / "trace.jsonl").write_text(TRACE + TRACE.splitlines()[-1])
    assert "[1/2]" in on_trace(folder, *arguments).stderr


SIGNED = """
import importlib

from batchwright.plugin import SchedulingPolicy, hookimpl
{top}


class Signed(SchedulingPolicy):
    name = "signed"

    def key(self, request):
        {within}
        return sign * request.num_prompt_tokens


@hookimpl
def batchwright_register_policy():
    return [Signed]
"""
COMPUTED = "sign = importlib.import_module('{0}'[::-1][::-1]).sign"


@pytest.mark.parametrize(
    ("top", "within"), [("from {0} import sign", ""), ("", "from {0} import sign"), ("", COMPUTED)]
)
def test_code_that_a_policy_imports_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, top: str, within: str
) -> None:
    """At the top of its file, in a function, and under a computed name."""
    module = f"signs_{folder.name.rpartition('_')[2]}_{len(top)}_{len(within)}"
    monkeypatch.syspath_prepend(folder)
    (folder / "signed.py").write_text(
        SIGNED.format(top=top.format(module), within=within.format(module))
    )
    arguments = ("--policy", "fcfs", "--policy", str(folder / "signed.py"))
    found = []
    for sign, reported in (
        ("1", "[2/2] signed"),
        ("-1", "1 of 2 cells are done already\n[2/2] si"),
    ):
        (folder / f"{module}.py").write_text(f"sign = {sign}")
        result = on_trace(folder, *arguments, "-o", "scheduler.max_num_seqs=1")
        assert reported in result.stderr
        found.append(table(folder)[1]["e2e_mean"])
    assert found[0] != found[1]
    assert on_trace(folder, *arguments, "-o", "scheduler.max_num_seqs=1").stderr.startswith("2 of")


def test_two_at_once_in_one_folder_both_finish(folder: Path) -> None:
    arguments = ["--policy", "fcfs", "--policy", "sjf", "--seeds", "1"]
    running = [background(folder, *arguments) for _ in range(2)]
    for process in running:
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, output.count("2 of 2 cells")) == (0, 1), errors
    assert [row["policy"] for row in table(folder)] == ["fcfs", "sjf"]
    assert len(records(folder)) == 2
    assert not [*(folder / "out").rglob("*.part")]
    assert compare(folder, *arguments).stderr == "2 of 2 cells are done already\n"


def background(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-m", "batchwright", "compare", "--config", str(folder / "run.toml"),
        "--workload", "poisson", "-j", "1", "--output", str(folder / "out"), *arguments,
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'core'}:{ROOT / 'plugins'}"}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=env, text=True, **pipes)


def test_page_says_which_code_was_compared(folder: Path) -> None:
    arguments = ("--policy", "fcfs", "--policy", f"{folder / 'policies.py'}:shortest")
    pages = []
    for text in (POLICIES, POLICIES + "\n"):
        (folder / "policies.py").write_text(text)
        on_trace(folder, *arguments)
        pages.append(re.findall(r"(fcfs|shortest) ([0-9a-f]{12}) \((\w+\.py)\)", shown(folder)))
    assert [entry[::2] for entry in pages[0]] == [("fcfs", "fcfs.py"), ("shortest", "policies.py")]
    assert pages[0][0] == pages[1][0]
    assert pages[0][1] != pages[1][1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "fcsf"), "there is no policy 'fcsf'. Did you mean 'fcfs'?"),
        (("--vary", "scheduler.max_num_seq=1,2"), "max_num_seq"),
        (("--vary", "scheduler.max_num_seqs=1,x"), "max_num_seqs"),
        (
            ("--vary", "scheduler.max_num_seqs=1", "--vary", "scheduler.max_num_seqs=2"),
            "scheduler.max_num_seqs: is varied twice",
        ),
        (("--starved-after", "nan"), "nan is no finite number"),
        (("--cell-timeout", "inf"), "inf is no finite number"),
        (("--vary", "nonsense"), "expected key.path=VALUE,VALUE"),
        (("--vary", "policy.fcfs.x=1,2"), "policy.fcfs"),
        (("--rates", "1,fast"), "--rates 1,fast: expected numbers > 0"),
        (("--rates", "0"), "expected numbers > 0"),
        (("--rates", "2,2"), "says a rate twice"),
        (("--workload", "clients", "--rates", "1"), "'clients' has none"),
        (("--workload", "nothing"), "nothing"),
        (("--target", "speed=1"), "expected [CLASS:]ttft=SECONDS"),
        (("--rank-by", "ttft_p5"), "Did you mean 'ttft_p50'?"),
        (("--rank-by", "goodput"), "needs --target"),
        (("-o", "kv.num_blocks=no"), "kv.num_blocks"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_nonsense_is_refused_before_anything_runs(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = compare(folder, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / "out").exists()


def test_no_workload_and_no_folder(folder: Path) -> None:
    assert "no workload is chosen" in run("--output", str(folder / "out")).stderr
    (folder / "file").write_text("")
    result = run("--output", str(folder / "file" / "out"), "--workload", "poisson")
    assert result.exit_code == 2
    assert "--output: cannot be made" in result.stderr


def test_who_fails_is_named_and_the_others_go_on(folder: Path) -> None:
    names = ("raises", "lies", "dies")
    choices = [a for name in names for a in ("--policy", f"{folder / 'policies.py'}:{name}")]
    result = compare(folder, "--policy", "fcfs", *choices, "--seeds", "1", "--policy", "sjf")
    assert result.exit_code == 1
    found = {row["policy"]: row["fault"] for row in table(folder)}
    assert (found["fcfs"], found["sjf"]) == ("", "")
    assert found["raises"].startswith("12 of 12 requests failed, the first: policy 'raises' (")
    assert "key() raised LookupError: no key for this" in found["raises"]
    assert "policy 'lies'" in found["lies"]
    assert (
        "running_to_preempt(): returned ('nobody',), expected Preempt of running requests"
        in found["lies"]
    )
    assert found["dies"] == "its process died: exit code 7"
    counts = [row["num_component_faults"] for row in table(folder)]
    assert counts == ["0", "12", "", "", "0"]
    for name in names:
        assert f"{name} is not ranked; 1 of 1 cells failed" in result.stdout
        assert f"<b>{name}</b>" in shown(folder)
    assert {row["policy"] for row in table(folder, "summary.csv")} == {"fcfs", "sjf"}


def test_options_that_no_cell_selects_are_named_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (folder / "run.toml").open("a") as file:
        file.write("[policy.sjf]\n[policy.srpt]\n[victim.lifo]\n[victim.most-blocks]\n")
    names = ("--policy", "fcfs", "--policy", "sjf", "--seeds", "1")
    compare(folder, *names, "--vary", "scheduler.victim=lifo,most-blocks")
    assert caplog.messages == ["[policy.srpt] has no effect: no cell selects it"]


def test_a_cell_whose_process_died_is_run_again(folder: Path) -> None:
    arguments = ("--policy", f"{folder / 'policies.py'}:dies", "--seeds", "1")
    for _ in range(2):
        result = compare(folder, *arguments)
        assert (result.exit_code, result.stderr) == (1, "[1/1] dies, seed 0: exit code 7\n")


def test_cells_that_were_cut_are_run_again_and_damaged_ones_named(folder: Path) -> None:
    arguments = ("--policy", "fcfs", "--policy", "sjf", "--seeds", "1")
    compare(folder, *arguments)
    before = products(folder)
    first, second = sorted((folder / "out" / "cells").iterdir())
    whole = first.read_bytes()
    for text in (b"", b"{}\n", whole[:-9]):
        first.write_bytes(text)
        result = compare(folder, *arguments)
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith("1 of 2 cells are done already\n[2/2] ")
        assert products(folder) == before
    first.write_bytes(whole.replace(b'"seed"', b'"seed'))
    result = compare(folder, *arguments)
    assert result.exit_code == 1
    assert f"its file is damaged: {first} (" in result.stdout
    assert "remove it, and the cell is run again" in result.stdout
    assert second.exists()


def test_messages_of_half_characters_are_kept(folder: Path) -> None:
    """A half character in a message of a policy is escaped: no file can hold it."""
    (folder / "halves.py").write_text(HALVES)
    result = compare(folder, "--policy", str(folder / "halves.py"), "--seeds", "1")
    assert result.exit_code == 1
    (row,) = table(folder)
    assert "key() raised ValueError: <b>\\ud800</b>" in row["fault"]
    assert "&lt;b&gt;\\ud800&lt;/b&gt;" in shown(folder)


HALVES = """
from batchwright.plugin import SchedulingPolicy, hookimpl


class Halves(SchedulingPolicy):
    name = "halves"

    def key(self, request):
        raise ValueError("<b>\\ud800</b>")


@hookimpl
def batchwright_register_policy():
    return [Halves]
"""


def test_a_cell_that_cannot_be_kept_is_named(folder: Path) -> None:
    """A folder of cells that may not be written; who may write anywhere finds no folder."""
    (folder / "out").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "out" / "cells").symlink_to("/proc/self/fdinfo")
    result = compare(folder, "--policy", "fcfs", "--seeds", "1")
    assert result.exit_code == 1
    assert "fcfs is not ranked; 1 of 1 cells failed: could not be kept: " in result.stdout


@pytest.mark.slow
def test_a_cell_that_hangs_is_ended_and_named(folder: Path) -> None:
    """Those before and behind it, in the same process and beside it, are done and kept."""
    (folder / "hangs.py").write_text(HANGS)
    arguments = ("--policy", "fcfs", "--policy", str(folder / "hangs.py"), "--policy", "sjf",
                 "--seeds", "1", "--cell-timeout", "8")  # fmt: skip
    for jobs, done in ((1, ""), (2, "2 of 3 cells are done already\n")):
        result = compare(folder, *arguments, jobs=jobs)
        assert result.exit_code == 3, result.output
        assert result.stderr.startswith(done)
        assert "hangs, seed 0: it took more than 8 s (--cell-timeout)\n" in result.stderr
        assert "hangs is not ranked; 1 of 1 cells failed: ran out of time: it" in result.stdout
        found = {row["policy"]: row["fault"] for row in table(folder)}
        late = "ran out of time: it took more than 8 s (--cell-timeout)"
        assert found == {"fcfs": "", "hangs": late, "sjf": ""}
        assert sorted(record["policy"] for record in records(folder)) == ["fcfs", "sjf"]


def test_who_starves_is_named_by_how_long(folder: Path) -> None:
    """Last come, first served: with load, the first wait while later ones are served."""
    choice = f"{folder / 'policies.py'}:starves"
    arguments = ("--policy", "fcfs", "--policy", choice, "--seeds", "1", "--rates", "5")
    result = compare(folder, *arguments, "--starved-after", "10")
    assert result.exit_code == 0
    fcfs, starves = table(folder)
    assert (fcfs["starved"], fcfs["notes"]) == ("0", "")
    assert int(starves["starved"]) > 0
    assert starves["notes"].startswith(f"starves {starves['starved']} of 12 requests: passed over")
    assert "starves: look at 1 of 1 cells" in result.stdout
    assert compare(folder, *arguments, "--starved-after", "1000").stdout.count("look at") == 0


def test_broken_invariants_are_named(folder: Path) -> None:
    """Tampered records are found at the end, or in that very step with --check."""
    (folder / "tampers.py").write_text(TAMPERS)
    for extra in ((), ("--check",)):
        result = compare(folder, "--policy", str(folder / "tampers.py"), "--seeds", "1", *extra)
        assert result.exit_code == 1
        broken = "tampers is not ranked; 1 of 1 cells failed: broke an invariant: E5: "
        assert broken in result.stdout
    was_run_to_its_end = {record["checked"]: "requests" in record for record in records(folder)}
    assert was_run_to_its_end == {False: True, True: False}


TAMPERS = """
from batchwright.plugin import SchedulingPolicy, hookimpl


class Tampers(SchedulingPolicy):
    name = "tampers"

    def key(self, request):
        return 0

    def on_admit(self, request, hit, need):
        if request.request_id == "1":
            self.ctx.view._state.kv._free.take()


@hookimpl
def batchwright_register_policy():
    return [Tampers]
"""


def test_nothing_to_measure_is_said(folder: Path) -> None:
    """No prompt fits: every request is refused, and nothing has a latency."""
    result = on_trace(
        folder, "--policy", "fcfs", "-o", "model.max_model_len=8", "--rank-by", "ttft_p50"
    )
    assert result.exit_code == 1, result.output
    assert result.stdout.startswith("There is no TTFT p50.\n")
    (row,) = table(folder)
    assert (row["arrived"], row["refused"], row["ttft_p50"]) == ("4", "4", "")


def test_refusals_are_named_beside_every_figure(folder: Path) -> None:
    """The long prompt is refused where it does not fit; the others are served sooner."""
    vary = ("--vary", "model.max_model_len=100,50", "--rank-by", "ttft_mean")
    result = on_trace(folder, "--policy", "fcfs", *vary)
    best, *_ = result.stdout.splitlines()
    assert best.startswith(
        "fcfs (max_model_len=50) has the lowest TTFT mean (1 of 4 refused; figures are of the "
        "others): "
    )
    (line,) = [row for row in result.stdout.splitlines() if row.startswith("1.")]
    assert line.endswith("  1 of 4 refused")
    (note,) = [row for row in result.stdout.splitlines() if "look at" in row]
    assert "1 of 4 requests were refused (its prompt of 60 tokens" in note
    assert "<td>1 of 4 refused</td>" in shown(folder)


def test_a_cell_that_serves_nothing_is_not_called_done(folder: Path) -> None:
    result = on_trace(folder, "--policy", "fcfs", "-o", "model.max_model_len=8")
    assert result.stderr.startswith("[1/1] fcfs, seed 0: none of 4 requests was served, the first:")
    assert result.exit_code == 1
    choice = f"{folder / 'policies.py'}:raises"
    failed = on_trace(folder, "--policy", choice).stderr
    assert failed.startswith("[1/1] raises, seed 0: 4 of 4 requests failed, the first: policy 'rai")


def test_requests_that_are_parked_for_ever_are_a_failure(folder: Path) -> None:
    (folder / "parks.py").write_text(PARKS)
    chosen = ("-o", "plugins.load=['parks.py']", "-o", "gate[0].use=parks")
    result = on_trace(folder, "--policy", "fcfs", *chosen)
    assert (result.exit_code, "4 of 4 unfinished" in result.stdout) == (1, True)
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    simulate = ["simulate", "--config", str(folder / "run.toml"), "--workload", "poisson", *chosen]
    result = CliRunner().invoke(group, simulate)
    assert result.exit_code == 1
    assert "Stopped: every request waits for a key, and nothing will signal one." in result.stderr


PARKS = """
from batchwright.plugin import Gate, hookimpl
from batchwright.verdicts import Wait


class Parks(Gate):
    name = "parks"

    def pre_filter(self, request, view):
        return Wait("nothing")


@hookimpl
def batchwright_register_gate():
    return [Parks]
"""


def test_warm_up_is_left_out_and_said_to_be(folder: Path) -> None:
    """Of the requests at 0, 0, 1.5 and 2.5 s the last two count; no cell is run again."""
    on_trace(folder, "--policy", "fcfs")
    result = on_trace(folder, "--policy", "fcfs", "--warmup", "1.5")
    assert result.stderr == "1 of 1 cells are done already\n"
    (row,) = table(folder)
    assert (row["arrived"], row["ttft_mean"], row["duration"]) == ("2", "5.5", "8.5")
    said = "2 of 4 requests arrived before 1.5 s and are left out of the figures."
    assert f"Warm-up: {said}" in shown(folder)
    assert f"<dt>warm-up</dt><dd>{said}</dd>" in shown(folder)
    assert "nan is no finite" in on_trace(folder, "--policy", "fcfs", "--warmup", "nan").stderr
    on_trace(folder, "--policy", "fcfs", "--warmup", "99")
    assert table(folder)[0]["notes"] == "all 4 requests arrived before --warmup 99"


def test_what_deciding_costs_is_measured_once(folder: Path) -> None:
    """It is in the page and on the terminal, and in no file that another run repeats."""
    first = on_trace(folder, "--policy", "fcfs")
    (path,) = (folder / "out" / "runs").iterdir()
    seen = json.loads(path.read_text())
    assert seen["decisions"] == 3
    assert seen["decision_seconds"] > 0
    path.write_text(json.dumps({**seen, "decision_seconds": 0.15}))
    again = on_trace(folder, "--policy", "fcfs")
    assert again.stderr == "1 of 1 cells are done already\n"
    (line,) = [row for row in again.stdout.splitlines() if row.startswith("1.")]
    assert line.endswith("  50 ms")
    assert "<td>50 ms</td>" in shown(folder)
    assert line not in first.stdout


def test_oracle_is_stamped(folder: Path) -> None:
    compare(folder, "--policy", "sjf", "--seeds", "1", "-o", "scheduler.predictor=oracle")
    (row,) = table(folder)
    assert (row["predictor"], row["oracles"]) == ("oracle", "predictor:oracle")
    assert "Oracle: something here knows what cannot be known in service" in shown(folder)
    compare(folder, "--policy", "sjf", "--seeds", "1")
    assert "Oracle" not in shown(folder)


def test_seeds_that_change_nothing_are_said_to(folder: Path) -> None:
    workload = f"jsonl:{folder / 'trace.jsonl'}"
    compare(folder, "--policy", "fcfs", "--seeds", "2", workload=workload)
    assert "nothing here depends on chance, so seeds are alike" in shown(folder)
    compare(folder, "--policy", "fcfs", "--seeds", "1")
    assert "depends on chance" not in shown(folder)  # one seed alone does not tell


class Page(HTMLParser):
    """References of a page, elements that it has not closed, and its data."""

    VOID = {"meta", "path", "rect", "br", "input"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.series: list[str] = []
        self.data = ""
        self._is_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        self.references += [given[name] for name in ("src", "href", "srcset") if name in given]
        self.ids += [given["id"]] if "id" in given else []
        self.series += [given["data-series"]] if "data-series" in given else []
        self._is_data = given.get("id") == "data"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag
        self._is_data = False

    def handle_data(self, data: str) -> None:
        self.data += data if self._is_data else ""


def test_report_needs_nothing_else(folder: Path) -> None:
    """No reference, every element closed, every id once, no date, no local path."""
    compare(folder, "--policy", "fcfs", "--policy", "fair", "--rates", "1,4", "--seeds", "2",
            "--target", "ttft=3", jobs=2)  # fmt: skip
    text = shown(folder)
    page = Page(text)
    assert page.open == []
    assert page.references == []
    assert page.series == ["fcfs", "fair"]
    charts = json.loads(page.data)["charts"]
    assert page.ids == [*(f"chart-{i}" for i in range(len(charts))), "data"]
    assert len(charts) > 15
    own = text.replace(str(_runtime()), "")
    assert re.findall(r"https?://|@import|url\(|@font-face|\bimport\b|fetch\(", own) == []
    assert len(text.encode()) < 3_000_000
    for words in (
        "Latency against arrival rate",
        "Distributions at 4 requests/s",
        "Service of clients and classes",
        "Over time",
        "All figures",
        "How it was made",
        "max_num_batched_tokens = 64",
        "In time: all requests: TTFT ≤ 3 s.",
        "Step times: linear (rtxpro6000-llama3.1-8b, base = 1.0, per_token = 0.0,",
        "batchwright 0.1.0",
        "client-1",
    ):
        assert words in text, words


def test_page_has_charts_along_an_option_that_varies(folder: Path) -> None:
    """The values are on the x axis; a policy that the option does not concern is level."""
    compare(folder, "--policy", "fcfs", "--policy", str(folder / "policies.py:shortest"),
            "--vary", "scheduler.max_num_seqs=2,1", "--seeds", "1")  # fmt: skip
    text = shown(folder)
    assert "<h2>Evidence along scheduler.max_num_seqs</h2>" in text
    chart = json.loads(Page(text).data)["charts"][0]
    assert [line["x"] for line in chart["lines"]] == [[1.0, 2.0], [1.0, 2.0]]
    wanted = ("fcfs", "max_num_seqs=1", "ttft_p50")
    (row,) = [
        row
        for row in table(folder, "summary.csv")
        if (row["policy"], row["variation"], row["measure"]) == wanted
    ]
    assert chart["spec"]["title"] == "TTFT p50, s"
    assert chart["lines"][0]["y"][0] == pytest.approx(float(row["mean"]), rel=1e-4)


@pytest.mark.parametrize("name", ["altair", "jinja2", "vl_convert"])
def test_without_the_lab_there_are_tables_and_the_reason_why_no_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A page of an earlier comparison goes: it would show other figures."""
    package = {"vl_convert": "vl-convert-python"}.get(name, name)
    monkeypatch.setitem(sys.modules, name, None)
    (folder / "out").mkdir()
    (folder / "out" / "report.html").write_text("old")
    result = on_trace(folder, "--policy", "fcfs")
    assert result.exit_code == 0, result.output
    assert sorted(products(folder)) == ["cells.csv", "clients.csv", "summary.csv"]
    said = f"no report.html without {package}; run: pip install -e '.[lab]'"
    assert said in result.stdout
    result = on_trace(folder, "--policy", "fcfs", "--png")
    assert (result.exit_code, f"no figures without {package}" in result.output) == (2, True)


@pytest.mark.slow
def test_ctrl_c_keeps_finished_cells(folder: Path) -> None:
    """The second cell never ends; what is done is reported, and not run again."""
    (folder / "hangs.py").write_text(HANGS)
    arguments = ["--policy", "fcfs", "--policy", str(folder / "hangs.py"), "--seeds", "1"]
    process = background(folder, *arguments)
    while not (folder / "hanging").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Stopped: 1 of 2 cells are done, and kept" in errors
    assert "This is not all: 1 of 2 cells are done." in output
    assert [row["policy"] for row in table(folder)] == ["fcfs"]
    assert "fcfs" in shown(folder)
    assert [record["policy"] for record in records(folder)] == ["fcfs"]
    assert compare(folder, *arguments[:2], "--seeds", "1").stderr.startswith("1 of 1")


HANGS = """
import time
from pathlib import Path

from batchwright.plugin import SchedulingPolicy, hookimpl


class Hangs(SchedulingPolicy):
    name = "hangs"

    def key(self, request):
        Path(__file__).with_name("hanging").touch()
        time.sleep(600)
        return 0


@hookimpl
def batchwright_register_policy():
    return [Hangs]
"""


def test_targets_of_a_class_that_no_request_has_are_named(folder: Path) -> None:
    """Misspelt, it makes every request be in time."""
    result = compare(folder, "--policy", "fcfs", "--seeds", "1", "--target", "caht:ttft=0.1")
    (row,) = table(folder)
    assert row["attainment"] == "1.0"
    assert row["notes"] == "a target is for slo_class 'caht', which no request has"
    assert f"fcfs: look at 1 of 1 cells; e.g. {row['notes']}" in result.stdout


def test_page_says_that_policies_change_the_load_of_a_closed_loop(folder: Path) -> None:
    arguments = ("--policy", "fcfs", "--seeds", "1", "--limit", "4")
    for workload, said in (("clients", "this is a closed loop"), ("poisson", "at the same times")):
        compare(folder, *arguments, workload=workload)
        page = (folder / "out" / "report.html").read_text()
        sayings = ("this is a closed loop", "at the same times")
        assert [text for text in sayings if text in page] == [said]


def test_figures_of_an_earlier_comparison_are_removed(folder: Path) -> None:
    """They would show other rates than the page beside them."""
    arguments = ("--policy", "fcfs", "--seeds", "1", "--limit", "4")
    for extra, figures in (
        (("--rates", "2,4", "--png", "--pdf"), ["figure-dark.png", "figure-dark.svg",
         "figure.pdf", "figure.png", "figure.svg"]),
        (("--rates", "2,4", "--vary", "scheduler.max_num_seqs=1,2"),
         ["figure-1-dark.svg", "figure-1.svg", "figure-2-dark.svg", "figure-2.svg",
          "figure-along-1-dark.svg", "figure-along-1.svg"]),
        (("--rates", "2"), []),
    ):  # fmt: skip
        assert compare(folder, *arguments, *extra).exit_code == 0
        assert sorted(path.name for path in (folder / "out").glob("figure*")) == figures
