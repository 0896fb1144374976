"""``batchwright explain`` tells what a decision log says of requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.protocols import SchedulingPolicy
from batchwright.testing import Driver, drive, fakes, make_plugin, make_request
from batchwright.verdicts import Preempt
from batchwright_cli.main import main
from batchwright_lab.recording.story import tell_grants
from batchwright_plugins.observer.decision_trail import follow


def explain(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["explain", *map(str, arguments)])


def make_scheduler(path: Path, *, plugins: Any = (fakes,), **sections: Any) -> Any:
    config = {
        "kv": {"num_blocks": 14},
        "observer": [{"use": "decision-log", "path": str(path), "flush": True}],
        **sections,
    }
    return scheduler_from_config(config, clock=VirtualClock(), plugins=plugins)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Five requests; D is preempted for C, then for itself."""
    path = tmp_path / "decisions.jsonl"
    scheduler = make_scheduler(path)
    first = [make_request("A", 31, 40), make_request("B", 30, 40), make_request("C", 30, 40)]
    drive(scheduler, {0: [*first, make_request("E", 8, 4)], 1: [make_request("D", 60, 20)]})
    scheduler.close()
    return path


def test_story_has_grants_hits_preemptions_and_the_end(log: Path) -> None:
    said = explain("D", "--log", log)

    assert said.exit_code == 0, said.output
    lines = said.output.splitlines()
    assert lines[0] == "request 'D'"
    told = [line.split(maxsplit=2) for line in lines[1:]]
    assert told[0] == [
        "step", "1", "arrives at 1 s with 60 prompt tokens, for at most 20 output tokens"
    ]  # fmt: skip
    assert told[1][1:] == ["1-2", "is admitted with 0 tokens cached; prefill 60, then 1 decode"]
    assert told[2][1:] == ["3", "gives up its blocks: request 'C' needs some"]
    assert told[3][1:] == ["3", "waits 1 step: preempted (shortage)"]
    assert told[4][1:] == ["4-6", "resumes with 48 tokens cached; recompute 14, then 2 decodes"]
    assert told[5][1:] == ["7", "gives up its blocks: there is none for its own next tokens"]
    assert told[-1][2] == "ends: length (max_tokens)"


def test_story_of_who_waits_says_behind_whom(tmp_path: Path) -> None:
    driver = Driver(make_scheduler(tmp_path / "log"))
    driver.add(make_request("long", 150, 2), make_request("big", 150, 2), make_request("x", 5, 2))
    driver.turn()

    said = explain("x", "--log", tmp_path / "log").output

    assert "waits 1 step: behind 'big': gate 'full-need': needs 10 blocks" in said


def test_story_of_a_long_prompt_has_its_chunks(tmp_path: Path) -> None:
    scheduler = make_scheduler(tmp_path / "log", scheduler={"max_num_batched_tokens": 16})
    drive(scheduler, [make_request("long", 40, 5)])
    scheduler.close()

    said = explain("long", "--log", tmp_path / "log").output

    assert "is admitted with 0 tokens cached; prefill 16+16+8, then 4 decodes" in said


class Pauses(SchedulingPolicy):
    """Lets the first running request pause once."""

    name = "pauses"

    def setup(self) -> None:
        self.paused = False

    def running_to_preempt(self, view: Any) -> Any:
        if self.paused or view.step_id < 3:
            return []
        self.paused = True
        return [Preempt(next(iter(view.running)), keep_blocks=True)]


def test_pause_is_a_wait_with_blocks_kept(tmp_path: Path) -> None:
    scheduler = make_scheduler(
        tmp_path / "log",
        plugins=[make_plugin(policy=[Pauses])],
        scheduler={"policy": "pauses", "max_num_seqs": 1},
    )
    drive(scheduler, {0: [make_request("a", 20, 9)], 3: [make_request("b", 5, 3)]})
    scheduler.close()

    said = explain("a", "--log", tmp_path / "log").output

    assert "step 3      pauses: its policy gives its seat to others" in said
    assert "tokens kept; 6 decodes" in said
    with (tmp_path / "log").open() as file:
        assert all(not {*trail.running} & {*trail.waiting} for trail in follow(file))


def test_waiting_lists_each_with_its_reason(tmp_path: Path) -> None:
    driver = Driver(make_scheduler(tmp_path / "log", gate=[{"use": "hint"}]))
    driver.add(
        make_request("runs", 5, 50),
        make_request("parked", 5, 5, hints={"park": "image"}),
        make_request("held", 5, 5, hints={"hold": 99}),
    )
    for _ in range(3):
        driver.turn()

    said = explain("--waiting", "--log", tmp_path / "log")

    lines = said.output.splitlines()
    assert lines[0] == "step 2, 2 s: 1 run, 2 wait"
    assert lines[1].startswith("parked  gate 'hint': as its hints say (waits for 'image')")
    assert lines[2].startswith("held    gate 'hint'")


def test_growing_log_is_read_up_to_its_last_whole_line(log: Path) -> None:
    whole = log.read_text()
    log.write_text(whole[: whole.index("\n", len(whole) // 2) + 30])

    assert explain("D", "--log", log).exit_code == 0
    assert explain("--waiting", "--log", log).exit_code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no decision log"),
        ("hello\n", "is no decision log"),
        ("[1]\n", "is no decision log"),
        ('{"format": "batchwright-decisions", "version": 99}\n', "version 99"),
        ("\ufffe", "is no decision log"),
    ],
)
def test_other_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    result = explain("a", "--log", tmp_path / "log")
    assert result.exit_code == 2
    assert said in result.output


def test_damaged_log_names_the_line(log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([*lines[:3], "{broken\n", *lines[3:]]))
    assert f"{log}:4: is no JSON" in explain("A", "--log", log).output


def test_a_byte_order_mark_and_a_cut_letter_are_no_damage(log: Path) -> None:
    whole = explain("A", "--log", log).output
    log.write_bytes(b"\xef\xbb\xbf" + log.read_bytes() + b'{"time":9,"added":{"\xc3')
    assert explain("A", "--log", log).output == whole
    log.write_bytes(log.read_bytes() + b'"}\n{}\n')
    number = log.read_bytes().count(b"\n") - 1
    assert f"{log}:{number}: is no JSON; the log is damaged" in explain("A", "--log", log).output


def test_an_unknown_request_is_answered_with_some_that_are_known(log: Path) -> None:
    result = explain("17", "--log", log)
    assert result.exit_code == 2
    assert "no request '17' among its" in result.output
    assert "The first of them: 'A'" in result.output


def test_log_without_steps_says_so(tmp_path: Path) -> None:
    make_scheduler(tmp_path / "log").close()
    assert "no step was made yet" in explain("--waiting", "--log", tmp_path / "log").output
    assert "no request 'a' among its 0" in explain("a", "--log", tmp_path / "log").output


def test_unknown_request_suggests_a_known_one(tmp_path: Path) -> None:
    scheduler = make_scheduler(tmp_path / "log")
    drive(scheduler, [make_request("request-17", 5, 2)])
    scheduler.close()
    result = explain("request-71", "--log", tmp_path / "log")
    assert result.exit_code == 2
    assert "Did you mean 'request-17'?" in result.output


def test_missing_file_and_wrong_use_are_said(tmp_path: Path) -> None:
    assert "there is no decision log" in explain("a", "--log", tmp_path / "none").output
    assert explain("--log", tmp_path / "none").exit_code == 2
    assert explain("a", "--waiting").exit_code == 2


@pytest.mark.parametrize(
    ("grants", "told"),
    [
        ([(1026, 512), (514, 512), (2, 2), *[(1, 1)] * 37], "prefill 512+512+2, then 37 decodes"),
        ([(60, 60)], "prefill 60"),
        ([(60, 30)], "prefill 30"),
        ([(1, 1)], "1 decode"),
        ([(8, 8), (4, 4), (1, 1)], "prefill 8, then 2 decodes of 5 tokens"),
        ([], "nothing scheduled yet"),
    ],
)
def test_grants_are_told_shortly(grants: list[tuple[int, int]], told: str) -> None:
    assert tell_grants(grants) == told


def test_an_id_that_is_used_again_has_two_stories(tmp_path: Path) -> None:
    scheduler = make_scheduler(tmp_path / "log")
    drive(scheduler, [make_request("a", 5, 2)])
    drive(scheduler, [make_request("a", 7, 2)])
    scheduler.close()
    said = explain("a", "--log", tmp_path / "log").output
    assert said.count("arrives") == said.count("ends") == 2
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["version"] == 2
