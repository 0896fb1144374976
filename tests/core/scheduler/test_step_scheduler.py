"""What the author of a whole scheduler relies on."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright import PluginError, Scheduler, StepError, VirtualClock
from batchwright.assembly import scheduler_from_config
from batchwright.plugin import ADMIT, Defer, Gate, Limit, SchedulerBase, StepScheduler
from batchwright.testing import Driver, make_plugin, make_request


class OneAtATime(StepScheduler):
    """Runs a request to its end, then the next."""

    name = "one-at-a-time"

    def plan(self, step: Any) -> None:
        for request in list(self.view.running):
            step.schedule(request)
        if not self.view.num_running:
            step.admit()
        step.hold("another one runs")


class Breaks(OneAtATime):
    """Breaks in its first step."""

    name = "breaks"

    def plan(self, step: Any) -> None:
        raise LookupError("no plan")


class Hurried(OneAtATime):
    """Takes the newest request that runs out of the plan again, and schedules each twice."""

    name = "hurried"

    def plan(self, step: Any) -> None:
        while step.admit():
            pass
        for request in [*self.view.running, *self.view.running]:
            assert step.schedule(request)
        if self.view.step_id == 2:
            step.preempt(list(self.view.running)[-1])


def make_driver(cls: type, **config: Any) -> Driver:
    chosen = {**config, "scheduler": {"use": cls.name, **config.get("scheduler", {})}}
    plugins = [make_plugin(scheduler=[cls])]
    return Driver(scheduler_from_config(chosen, clock=VirtualClock(), plugins=plugins))


def test_ours_is_a_scheduler_like_any_other() -> None:
    found = Scheduler.from_config({})
    assert isinstance(found, SchedulerBase)
    assert found.name == "unified"
    assert found.ctx.label.startswith("scheduler 'unified' (batchwright ")


def test_a_scheduler_of_a_few_lines_serves() -> None:
    driver = make_driver(OneAtATime)
    driver.add(make_request("a", 5, 3), make_request("b", 4, 2))
    driver.turn()
    assert driver.scheduler.requests["b"].waiting_reason == ""
    driver.finish()
    assert driver.recorder.grants[:5] == [{"a": 5}, {"a": 1}, {"a": 1}, {"b": 4}, {"b": 1}]


class Small(Limit):
    """Two tokens at a time."""

    name = "small"

    def max_tokens(self, request: Any, num_new_tokens: int, view: Any) -> int:
        return min(num_new_tokens, 2)


class OnlyB(Gate):
    """Admits b."""

    name = "only-b"

    def pre_filter(self, request: Any, view: Any) -> Any:
        return ADMIT if request.request_id == "b" else Defer(reason="not b")


def test_gates_and_limits_take_part() -> None:
    """The gate passes over the first request, the limit cuts the prompt of the second."""
    config = {"scheduler": {"use": "one-at-a-time"}, "gate": [{"use": "only-b"}]}
    plugins = [make_plugin(scheduler=[OneAtATime], gate=[OnlyB], limit=[Small])]
    driver = Driver(scheduler_from_config({**config, "limit": [{"use": "small"}]},
                                          clock=VirtualClock(), plugins=plugins))  # fmt: skip
    driver.add(make_request("a", 3, 1), make_request("b", 5, 1))
    for _ in range(3):
        driver.turn()
    assert driver.recorder.grants == [{"b": 2}, {"b": 2}, {"b": 1}]
    assert driver.scheduler.requests["a"].waiting_reason == "gate 'only-b': not b"


def test_a_plan_that_raises_names_the_scheduler() -> None:
    driver = make_driver(Breaks)
    driver.add(make_request("a", 5, 1))
    with pytest.raises(PluginError, match="raised LookupError: no plan") as caught:
        driver.turn()
    assert "scheduler 'breaks'" in str(caught.value)


def test_a_step_keeps_its_budgets_whatever_it_is_asked_for() -> None:
    """A request is scheduled once a step, and what is preempted leaves the plan."""
    driver = make_driver(Hurried, scheduler={"max_num_batched_tokens": 8, "max_num_seqs": 3})
    driver.add(*(make_request(name, 3, 4) for name in "abc"))
    for _ in range(3):
        driver.turn()
    assert driver.recorder.grants == [{"a": 3, "b": 3, "c": 2}, {"a": 1, "b": 1, "c": 1},
                                      {"a": 1, "b": 1}]  # fmt: skip
    assert driver.recorder.plans[2]["preempted_req_ids"] == ["c"]
    driver.finish()


def test_options_are_those_of_its_own_table() -> None:
    with pytest.raises(Exception, match=r"scheduler\.unified\.speed: unknown option"):
        Scheduler.from_config({"scheduler": {"unified": {"speed": 3}}})


def test_calls_from_within_a_plan_are_refused() -> None:
    class Recurses(OneAtATime):
        """Plans within a plan."""

        name = "recurses"

        def plan(self, step: Any) -> None:
            self.schedule()

    driver = make_driver(Recurses)
    driver.add(make_request("a", 5, 1))
    with pytest.raises(StepError, match="from within schedule"):
        driver.turn()
