"""A shadow says what it would have done, and does nothing."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.exceptions import ConfigError
from batchwright.plugin import SchedulingPolicy
from batchwright.testing import Driver, drive, fakes, make_plugin, make_request
from batchwright.verdicts import Preempt
from batchwright_plugins.observer.agreement import Agreement, Series, kendall_tau


class Shortest(SchedulingPolicy):
    """The shortest prompt first, running ones too."""

    name = "shortest"

    def key(self, request):
        return request.num_prompt_tokens

    def running_key(self, request):
        return request.num_prompt_tokens


class Meddler(SchedulingPolicy):
    """Does everything that a policy can do to a run."""

    name = "meddler"

    @define
    class Data:
        owner: str = ""

    def setup(self):
        self.heard = []

    def key(self, request):
        return -self.ctx.predict(request)[0] - self.ctx.random.random()

    def account(self, request):
        return request.client

    def on_add(self, request):
        self.ctx.call_at_tokens(request, num_computed_tokens=5, payload="five")
        self.ctx.call_at(2.0, payload="two")
        self.ctx.signal("x")
        self.ctx.signal("y")
        self.ctx.end(request, "by the meddler")
        self.ctx.data(request).owner = "mine"

    def on_tokens(self, request, payload):
        assert self.ctx.data(request).owner == "mine"
        self.heard.append(payload)

    def on_timer(self, payload):
        self.heard.append(payload)

    def running_to_preempt(self, view):
        yield from map(Preempt, view.running)


def failing(method: str) -> type[SchedulingPolicy]:
    """A policy one of whose methods raises from its third call on."""

    def fail(self: Any, *arguments: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls > 2:
            raise ValueError("no more")
        return () if method == "running_to_preempt" else 0

    return type("Failing", (SchedulingPolicy,), {"name": "failing", method: fail})


PLUGINS = (fakes, make_plugin(policy=[Shortest, Meddler]))


def make_scheduler(*policies: str, plugins: Any = PLUGINS, folder: Path | None = None, **sections):
    observers = [{"use": "shadow", "policy": name, "every": 1} for name in policies]
    for number, observer in enumerate(observers if folder else ()):
        observer["path"] = str(folder / f"{number}.csv")
    config = {"observer": [*sections.pop("observer", ()), *observers], **sections}
    return scheduler_from_config(config, clock=VirtualClock(), plugins=plugins)


def said(scheduler: Any) -> list[dict[str, Any]]:
    return [o.summary() for o in scheduler.components.observers if o.name == "shadow"]


def busy(scheduler: Any, seed: int, steps: int = 120) -> None:
    """Arrivals, gates, parks, aborts, shortages."""
    draw, driver = random.Random(f"shadow/{seed}"), Driver(scheduler)
    for step in range(steps):
        for number in range(draw.choice([0, 0, 1, 3]) if step < 80 else 0):
            hints = draw.choice(
                [{}, {}, {}, {"park": "x"}, {"skip": "y"}, {"hold": 3}, {"stop": 2}]
            )
            driver.add(
                make_request(
                    f"r{step}.{number}",
                    draw.randint(1, 60),
                    draw.randint(1, 30),
                    hints=hints,
                    priority=draw.randrange(3),
                    client=draw.choice("ab"),
                )
            )
        if draw.random() < 0.1:
            scheduler.signal("x")
        if scheduler.requests and draw.random() < 0.1:
            driver.abort(draw.choice(list(scheduler.requests)))
        driver.turn()
    scheduler.close()


BUSY = {
    "gate": [{"use": "hint"}, {"use": "full-need"}],
    "scheduler": {"max_num_seqs": 6, "max_num_batched_tokens": 48},
    "kv": {"num_blocks": 40, "block_size": 4},
}


@pytest.mark.parametrize("policy", ["fcfs", "priority", "shortest"])
@pytest.mark.parametrize("seed", range(3))
def test_shadow_of_the_same_policy_agrees(policy: str, seed: int) -> None:
    """Whatever gates, parks, aborts and shortages do to the run."""
    config = {**BUSY, "scheduler": {**BUSY["scheduler"], "policy": policy}}
    scheduler = make_scheduler(policy, **config)
    busy(scheduler, seed)
    (found,) = said(scheduler)
    assert found["steps"] == 120
    assert found["failure"] == ""
    assert found["same_choices_ratio"] == 1.0
    assert found["same_admissions_ratio"] == 1.0
    assert found["same_grants_ratio"] in (1.0, None)
    assert found["order_tau"] == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_shadow_changes_nothing(tmp_path: Path, seed: int) -> None:
    """Not even one that marks, alarms, notifies, ends, predicts, draws lots, and pauses."""
    logs = []
    for number, policies in enumerate([(), ("meddler", "shortest", "fcfs")]):
        path = tmp_path / f"{number}.jsonl"
        log = {"use": "decision-log", "path": str(path), "replay": False, "block_ids": True}
        scheduler = make_scheduler(*policies, observer=[log], **BUSY)
        busy(scheduler, seed)
        assert not scheduler.estimator_was_asked
        assert [found["failure"] for found in said(scheduler)] == [""] * len(policies)
        logs.append(path.read_bytes())
    assert logs[0] == logs[1]


def test_a_policy_that_watches_hears_its_marks_and_alarms() -> None:
    scheduler = make_scheduler("meddler")
    drive(scheduler, [make_request("A", 4, 4), make_request("B", 40, 2)])
    (shadow,) = (o for o in scheduler.components.observers if o.name == "shadow")
    assert sorted(shadow._policy.heard) == ["five", "five", "two", "two"]
    usage = shadow._policy.ctx.usage
    assert usage[None].prefill_tokens == 44
    assert usage[None].decode_tokens == 4
    assert "A" not in shadow._world._usage_of


def test_choices_are_counted_exactly() -> None:
    """One seat, three requests at once: the shadow would have begun with the third."""
    scheduler = make_scheduler("shortest", scheduler={"max_num_seqs": 1})
    requests = [make_request(name, size, 1) for name, size in (("A", 30), ("B", 20), ("C", 10))]
    drive(scheduler, requests)
    (found,) = said(scheduler)
    # Looked at: A; B; C, one a step. C, C and B would have been first: it lags behind.
    assert found["same_admissions_ratio"] == pytest.approx(1 / 3)
    assert found["order_tau"] == -1.0


def test_a_shadow_knows_of_each_admission_of_a_step() -> None:
    """Six seats at once: fair deals them in turns, and so would its shadow."""
    scheduler = make_scheduler("fair", scheduler={"policy": "fair", "max_num_seqs": 6})
    drive(scheduler, [make_request(f"{c}{n}", 10, 3, client=c) for c in "ab" for n in range(6)])
    (found,) = said(scheduler)
    assert found["same_choices_ratio"] == found["same_admissions_ratio"] == 1.0


def test_grants_are_compared_where_tokens_do_not_suffice() -> None:
    """Two prompts in chunks: fcfs serves the first, the shadow the shorter one."""
    limits = {"max_num_batched_tokens": 16, "max_num_seqs": 2}
    for policy, ratio in (("fcfs", 1.0), ("shortest", 0.0)):
        scheduler = make_scheduler(
            policy, scheduler=limits, limit=[{"use": "long-prefill", "threshold": 12}]
        )
        driver = Driver(scheduler)
        driver.add(make_request("long", 60, 2), make_request("short", 20, 2))
        for _ in range(3):
            driver.turn()
        (found,) = said(scheduler)
        assert found["same_grants_ratio"] == ratio, policy


def test_wishes_to_yield_are_counted_and_not_granted() -> None:
    scheduler = make_scheduler("meddler", scheduler={"max_num_seqs": 1})
    drive(scheduler, [make_request("A", 4, 4), make_request("B", 4, 1)])
    (found,) = said(scheduler)
    assert found["yield_steps"] == 4
    assert scheduler.view.num_running == 0


@pytest.mark.parametrize(
    "method", ["key", "running_key", "running_to_preempt", "account", "on_finish"]
)
def test_a_shadow_that_fails_is_left_out_with_one_warning(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = make_plugin(policy=[failing(method)])
    limits = {"max_num_seqs": 6, "max_num_batched_tokens": 12}
    scheduler = make_scheduler("failing", plugins=(fakes, plugin), **{**BUSY, "scheduler": limits})
    busy(scheduler, 1)
    (found,) = said(scheduler)
    assert found["failure"] == f"failing: {method}() raised ValueError: no more" or (
        method == "key" and found["failure"] == "failing: add() raised ValueError: no more"
    )
    assert found["steps"] < 120
    warnings = [r.message for r in caplog.records if "the shadow is left out" in r.message]
    assert len(warnings) == 1
    assert scheduler.fault_counts == {}


def test_agreement_over_time_is_written(tmp_path: Path) -> None:
    scheduler = make_scheduler("shortest", folder=tmp_path, **BUSY)
    busy(scheduler, 2)
    with (tmp_path / "0.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [0, 16, 32, 48, 64, 80, 96, 112]
    assert sum(int(row["steps"]) for row in rows) == 120


def test_a_file_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"observer\[0\]\.path: cannot be written"):
        make_scheduler("fcfs", folder=tmp_path / "file")


@pytest.mark.parametrize("policy", ["fcsf", ""])
def test_an_unknown_policy_stops_the_start(policy: str) -> None:
    with pytest.raises(ConfigError, match=r"observer\[0\]\.policy"):
        make_scheduler(policy)


def test_series_stays_short() -> None:
    """Stretches double as the run goes on; nothing is lost."""
    series = Series()
    for step in range(10_000):
        part = series.at(step, step / 10)
        part.num_choices += 1
        part.num_same_choices += step % 2
    assert len(series.stretches) <= 64
    assert series.total().num_steps == 10_000
    assert series.total().ratios()["same_choices_ratio"] == 0.5
    rows = list(series.rows())
    assert [row["step"] for row in rows[:3]] == [0, series.length, 2 * series.length]
    assert Agreement(0, 0.0).ratios() == dict.fromkeys(
        ("same_choices_ratio", "same_admissions_ratio", "same_grants_ratio", "order_tau")
    )


@pytest.mark.parametrize(
    ("first", "second", "tau"),
    [
        ("abc", "abc", 1.0),
        ("abc", "cba", -1.0),
        ("abcd", "acbd", pytest.approx(4 / 6)),
        ("axb", "byaz", -1.0),
        ("a", "a", None),
        ("ab", "cd", None),
    ],
)
def test_tau_is_of_what_both_have(first: str, second: str, tau: float | None) -> None:
    assert kendall_tau(first, second) == tau
