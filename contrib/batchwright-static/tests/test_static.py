"""Static batching, driven without a model."""

from __future__ import annotations

from typing import Any

from batchwright_static import StaticBatching

from batchwright import VirtualClock
from batchwright.assembly import Assembly
from batchwright.config import Config
from batchwright.plugin_manager import PluginManager
from batchwright.testing import Driver, make_request
from batchwright.testing.conformance import SchedulerConformance


class TestStaticBatching(SchedulerConformance):
    component = StaticBatching


class TestSmallBatches(SchedulerConformance):
    component = StaticBatching
    options = {"batch_size": 3}


def make_driver(**config: Any) -> Driver:
    chosen = {**config, "scheduler": {"use": "static", **config.get("scheduler", {})}}
    plugins = PluginManager.discover().with_component("scheduler", StaticBatching)
    assembly = Assembly(Config.from_dict(chosen), plugins=plugins, clock=VirtualClock())
    return Driver(assembly.scheduler())


def grants(driver: Driver, num_steps: int) -> list[dict[str, int]]:
    for _ in range(num_steps):
        driver.turn()
    return driver.recorder.grants[-num_steps:]


def test_next_batch_waits_for_the_longest_request() -> None:
    driver = make_driver(scheduler={"static": {"batch_size": 2}})
    driver.add(make_request("a", 3, 1), make_request("b", 2, 4), make_request("c", 5, 1))
    assert grants(driver, 5) == [{"a": 3, "b": 2}, {"b": 1}, {"b": 1}, {"b": 1}, {"c": 5}]
    driver.finish()


def test_no_request_joins_a_batch_that_runs() -> None:
    driver = make_driver()
    driver.add(make_request("a", 3, 3))
    driver.turn()
    driver.add(make_request("late", 2, 1))
    assert grants(driver, 3) == [{"a": 1}, {"a": 1}, {"late": 2}]
    driver.finish()


def test_prompts_are_computed_before_any_decode() -> None:
    """Over several steps where the budget asks for it."""
    driver = make_driver(scheduler={"max_num_batched_tokens": 8})
    driver.add(make_request("a", 6, 2), make_request("b", 6, 2))
    assert grants(driver, 3) == [{"a": 6, "b": 2}, {"b": 4}, {"a": 1, "b": 1}]
    driver.finish()


def test_batch_fits_into_the_pool_at_its_longest() -> None:
    """Three of these would fit at first, and two at their longest: no request is preempted."""
    driver = make_driver(kv={"num_blocks": 9, "block_size": 4, "enable_prefix_caching": False})
    driver.add(*(make_request(name, 8, 8) for name in "abc"))
    assert list(grants(driver, 1)[0]) == ["a", "b"]
    driver.finish()
    assert all(request.num_preemptions == 0 for request in driver.requests)
