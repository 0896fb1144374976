"""The loop of vLLM V0, driven without a model."""

from __future__ import annotations

from typing import Any

from batchwright_v0 import V0Scheduler

from batchwright import VirtualClock
from batchwright.assembly import Assembly
from batchwright.config import Config
from batchwright.plugin_manager import PluginManager
from batchwright.testing import Driver, make_request
from batchwright.testing.conformance import SchedulerConformance


class TestV0Scheduler(SchedulerConformance):
    component = V0Scheduler


class TestDelayed(SchedulerConformance):
    component = V0Scheduler
    options = {"delay_factor": 2.0, "watermark": 0.1}


def make_driver(**config: Any) -> Driver:
    chosen = {**config, "scheduler": {"use": "v0", **config.get("scheduler", {})}}
    plugins = PluginManager.discover().with_component("scheduler", V0Scheduler)
    assembly = Assembly(Config.from_dict(chosen), plugins=plugins, clock=VirtualClock())
    return Driver(assembly.scheduler())


def grants(driver: Driver, num_steps: int) -> list[dict[str, int]]:
    for _ in range(num_steps):
        driver.turn()
    return driver.recorder.grants[-num_steps:]


def test_prompts_stop_decodes() -> None:
    """A step computes prompts or decodes, never both."""
    driver = make_driver()
    driver.add(make_request("a", 3, 4))
    driver.turn()
    driver.add(make_request("b", 5, 4))
    assert grants(driver, 2) == [{"b": 5}, {"a": 1, "b": 1}]
    driver.finish()


def test_prompts_are_whole() -> None:
    """A request that does not fit into the budget of a step waits for the next."""
    driver = make_driver(scheduler={"max_num_batched_tokens": 8})
    driver.add(make_request("a", 5, 2), make_request("b", 4, 2))
    assert grants(driver, 3) == [{"a": 5}, {"b": 4}, {"a": 1, "b": 1}]
    driver.finish()


def test_prompt_longer_than_the_budget_is_computed_in_pieces() -> None:
    driver = make_driver(scheduler={"max_num_batched_tokens": 8})
    driver.add(make_request("a", 19, 2))
    assert grants(driver, 4) == [{"a": 8}, {"a": 8}, {"a": 3}, {"a": 1}]
    driver.finish()


def test_last_request_gives_up_its_blocks_and_returns_first() -> None:
    driver = make_driver(
        kv={"num_blocks": 6, "block_size": 4, "enable_prefix_caching": False},
        scheduler={"v0": {"watermark": 0.0}},
    )
    driver.add(make_request("a", 7, 9), make_request("b", 7, 9))
    assert grants(driver, 3) == [{"a": 7, "b": 7}, {"a": 1, "b": 1}, {"a": 1}]
    assert driver.recorder.plans[-1]["preempted_req_ids"] == ["b"]
    driver.add(make_request("c", 2, 1))
    driver.finish()
    assert {"b": 9, "c": 2} in driver.recorder.grants


def test_delay_lets_prompts_gather() -> None:
    """The prompt step took 1 s: b waits for 3 s, and c is admitted with it."""
    driver = make_driver(scheduler={"v0": {"delay_factor": 3.0}})
    driver.add(make_request("a", 3, 9))
    assert grants(driver, 1) == [{"a": 3}]
    driver.add(make_request("b", 4, 2))
    assert grants(driver, 2) == [{"a": 1}, {"a": 1}]
    driver.add(make_request("c", 5, 2))
    assert grants(driver, 2) == [{"a": 1}, {"a": 1}]
    assert grants(driver, 1) == [{"b": 4, "c": 5}]
    driver.finish()


def test_nothing_is_delayed_while_nothing_runs() -> None:
    driver = make_driver(scheduler={"v0": {"delay_factor": 100.0}})
    driver.add(make_request("a", 3, 1))
    driver.turn()
    driver.add(make_request("b", 4, 1))
    assert grants(driver, 1) == [{"b": 4}]
    driver.finish()
