"""The decision log: what it says, how much, and that it says the same twice."""

import json
import random

import pytest

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.exceptions import ConfigError
from batchwright.testing import Driver, drive, fakes, make_request
from batchwright_plugins.observer.decision_trail import follow


def make_scheduler(path, *, gates=({"use": "full-need"},), log=None, **sections):
    scheduler = sections.pop("scheduler", {})
    kv = {"num_blocks": 14, **sections.pop("kv", {})}
    return scheduler_from_config(
        {
            "scheduler": scheduler,
            "kv": kv,
            "gate": list(gates),
            "observer": [{"use": "decision-log", "path": str(path), **(log or {})}],
        },
        clock=VirtualClock(),
        plugins=[fakes],
    )


def five_requests():
    first = [make_request("A", 31, 40), make_request("B", 30, 40), make_request("C", 30, 40)]
    return {0: [*first, make_request("E", 8, 4)], 1: [make_request("D", 60, 20)]}


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_reads_as_it_was_decided(tmp_path):
    """The preemption and resumption of the worked case, line by line."""
    scheduler = make_scheduler(tmp_path / "log", log={"block_ids": True})
    drive(scheduler, five_requests())
    scheduler.close()
    header, *steps = lines_of(tmp_path / "log")
    assert header["format"] == "batchwright-decisions"
    assert header["num_usable_blocks"] == 13
    assert steps[1]["added"] == {
        "D": [60, 20, 1.0, {"contents": steps[1]["added"]["D"][3]["contents"]}]
    }
    assert len(steps[1]["added"]["D"][3]["contents"]) == 8 * (60 // 16)
    assert steps[1]["scheduled"] == {"D": [60, 60, [8, 9, 10, 11]]}
    assert steps[1]["decode_batch"] == 4
    assert steps[2]["blocks"] == {"A": [12]}
    assert "scheduled" not in steps[2]
    assert steps[3]["preempted"] == {"D": "C"}
    assert steps[3]["waits"] == {"D": "preempted (shortage)"}
    assert steps[3]["stop"] == [None, "a running request ran out of blocks in this step"]
    assert steps[4]["finished"] == {"E": ["length", "max_tokens", 4]}
    assert steps[4]["admitted"] == {"D": 48}
    assert steps[4]["resumed"] == ["D"]
    assert steps[4]["scheduled"]["D"][:2] == [14, 14]
    assert steps[4]["stop"] is None
    assert steps[7]["preempted"] == {"D": "D"}


def test_equal_runs_write_equal_bytes(tmp_path):
    for name in ("one", "two"):
        scheduler = make_scheduler(tmp_path / name)
        drive(scheduler, five_requests())
        scheduler.close()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_steps_cost_what_changes_not_what_waits_or_runs(tmp_path):
    """A steady step is a short line, with 40 requests running and 400 waiting."""
    scheduler = make_scheduler(
        tmp_path / "log", scheduler={"max_num_seqs": 40}, kv={"num_blocks": 600}
    )
    driver = Driver(scheduler)
    driver.add(*(make_request(f"request-{n}", 20, 90) for n in range(440)))
    for _ in range(12):
        driver.turn()
    scheduler.close()
    lines = (tmp_path / "log").read_text("utf-8").splitlines()
    steady = json.loads(lines[6])
    assert steady["decode_batch"] == 40
    assert steady["waiting"] == 400
    assert len(lines[6]) < 200


def random_run(scheduler, seed, steps=80):
    """Yield the driver after every plan of a run with gates, parks, aborts, shortages."""
    draw, driver = random.Random(seed), Driver(scheduler)
    gate = scheduler.components.gates[0]
    for step in range(steps):
        for n in range(draw.choice([0, 0, 1, 2]) if step < 50 else 0):
            hints = draw.choice(
                [{}, {}, {}, {"park": "x"}, {"skip": "y"}, {"hold": 3}, {"stop": 2}]
            )
            driver.add(
                make_request(f"r{step}.{n}", draw.randint(1, 30), draw.randint(1, 30), hints=hints)
            )
        if draw.random() < 0.1:
            scheduler.signal("x")
            gate.let_pass("y")
            gate.open_keys.clear()
        if scheduler.requests and draw.random() < 0.2:
            driver.abort(draw.choice(list(scheduler.requests)))
        driver.plan()
        yield driver
        driver.update()


@pytest.mark.parametrize("backfill", [0, 2])
@pytest.mark.parametrize("seed", range(6))
def test_log_alone_says_who_stands_where_and_why(tmp_path, seed, backfill):
    """The trail equals the scheduler's state at each step."""
    scheduler = make_scheduler(
        tmp_path / "log",
        gates=[{"use": "hint"}, {"use": "full-need"}],
        scheduler={"max_num_seqs": 4, "max_num_batched_tokens": 32, "backfill": backfill},
        kv={"num_blocks": 20, "block_size": 4},
    )
    seen = []
    for driver in random_run(scheduler, seed):
        waiting = [r for r in scheduler.requests.values() if r not in scheduler.running]
        queue = scheduler.components.policy.queue
        seen.append(
            {
                "scheduled": dict(driver.recorder.grants[-1]),
                "running": [request.request_id for request in scheduler.running],
                "waiting": {r.request_id: r.waiting_reason for r in waiting},
                "aside": {r.request_id: r.waiting_reason for r in waiting if r.view not in queue},
            }
        )
    scheduler.close()
    trails = []
    for trail in follow((tmp_path / "log").read_text("utf-8").splitlines()):
        if trail.step is not None and trail.step == len(trails):
            reasons = {name: trail.why(name) for name in trail.waiting}
            trails.append((dict(trail.grants), list(trail.running), dict(trail.waiting), reasons))
    assert len(trails) == len(seen)
    for (grants, running, waiting, reasons), live in zip(trails, seen, strict=True):
        assert grants == live["scheduled"]
        assert running == live["running"]
        assert waiting == live["waiting"]
        assert all(reasons[name] == reason for name, reason in live["aside"].items())
        assert all(reasons.values())


def test_those_behind_the_stopper_wait_behind_it(tmp_path):
    scheduler = make_scheduler(tmp_path / "log", kv={"num_blocks": 5})
    driver = Driver(scheduler)
    driver.add(*(make_request(name, 40, 8) for name in "ABC"))
    driver.turn()
    driver.turn()
    scheduler.close()
    *_, trail = follow((tmp_path / "log").read_text("utf-8").splitlines())
    assert trail.why("B").startswith("gate 'full-need': needs 3 blocks")
    assert trail.why("C") == f"behind 'B': {trail.why('B')}"
    with pytest.raises(KeyError):
        trail.why("A")


def test_an_id_that_is_used_again_is_two_requests(tmp_path):
    """An abort and a new request of the same id keep their order in the log."""
    scheduler = make_scheduler(tmp_path / "log")
    driver = Driver(scheduler)
    driver.add(make_request("A", 4, 2))
    driver.abort("A")
    driver.turn()
    driver.add(make_request("A", 5, 2))
    while scheduler.has_unfinished:
        driver.turn()
    scheduler.close()
    *_, trail = follow((tmp_path / "log").read_text("utf-8").splitlines())
    assert trail.finished == {"A": ("length", "max_tokens")}
    lines = lines_of(tmp_path / "log")
    assert [line["added"]["A"][0] for line in lines if "added" in line] == [4, 5]


def test_flushed_lines_are_there_before_the_next_step(tmp_path):
    scheduler = make_scheduler(tmp_path / "log", log={"flush": True})
    driver = Driver(scheduler)
    driver.add(make_request("A", 4, 2))
    driver.plan()
    assert len(lines_of(tmp_path / "log")) == 2
    assert scheduler.components.observers[0].summary()["lines"] == 2


def test_a_path_that_cannot_be_written_names_the_option(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"observer\[0\]\.path: cannot be written"):
        make_scheduler(tmp_path / "file" / "log")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is no decision log"),
        ("{}", "is no decision log"),
        ('{"format":"batchwright-decisions","version":1}', "version 1; this Batchwright reads"),
    ],
)
def test_what_is_no_log_is_refused(text, what):
    with pytest.raises(ValueError, match=what):
        list(follow(text.splitlines()))


def test_names_that_no_file_can_hold_cost_no_line(tmp_path):
    scheduler = make_scheduler(tmp_path / "log")
    drive(scheduler, [make_request("A", 5, 2, client="\ud800"), make_request("B", 5, 2)])
    scheduler.close()
    lines = (tmp_path / "log").read_text("utf-8").splitlines()
    assert json.loads(lines[1])["added"]["A"][3]["client"] == "?"
    *_, trail = follow(lines)
    assert trail.finished.keys() == {"A", "B"}
