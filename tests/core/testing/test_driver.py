"""The driver: what its documentation shows, and in which order it does things."""

import pytest

from batchwright.clock import VirtualClock
from batchwright.exceptions import InvariantError, RequestRefusedError
from batchwright.scheduler import Scheduler
from batchwright.testing import Driver, check_step, drive, make_request, prompt_tokens


def make_scheduler(depth=1, **kv):
    config = {"kv": {"num_blocks": 14, **kv}, "scheduler": {"pipeline_depth": depth}}
    return Scheduler.from_config(config, clock=VirtualClock())


def test_drive_as_documented():
    run = drive(make_scheduler(), [make_request("A", 31, 40), make_request("B", 30, 40)])
    assert run.recorder.grants[0] == {"A": 31, "B": 30}
    assert run.recorder.finished == {"A": "length/max_tokens", "B": "length/max_tokens"}
    assert [len(run.recorder.outputs[name]) for name in "AB"] == [40, 40]


def test_requests_arrive_before_their_steps():
    arrivals = {0: [make_request("A", 4, 9)], 3: [make_request("B", 5, 2)]}
    run = drive(make_scheduler(), arrivals)
    assert [dict(grants) for grants in run.recorder.grants[:4]] == [
        {"A": 4},
        {"A": 1},
        {"A": 1},
        {"A": 1, "B": 5},
    ]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_so_many_plans_are_in_flight(depth):
    driver = Driver(make_scheduler(depth), depth=depth)
    driver.add(make_request("A", 4, 9))
    driver.turn()
    assert driver.num_in_flight == depth - 1
    assert len(driver.recorder.grants) == depth
    driver.finish()
    assert driver.num_in_flight == 0


def test_plans_are_computed_in_order_and_at_the_latest_by_their_update():
    driver = Driver(make_scheduler(2), depth=2)
    driver.compute()
    driver.add(make_request("A", 4, 9))
    driver.plan()
    driver.plan()
    assert driver.executor.num_executed == 0
    driver.update()
    assert driver.executor.num_executed == 1
    driver.compute()
    driver.compute()
    assert driver.executor.num_executed == 2


def test_each_plan_moves_a_virtual_clock():
    scheduler = make_scheduler()
    driver = Driver(scheduler, step_time=0.5)
    driver.add(make_request("A", 4, 3))
    driver.finish()
    assert scheduler.clock.now() == pytest.approx(1.5)


def test_refused_request_is_not_driven():
    driver = Driver(make_scheduler())
    with pytest.raises(RequestRefusedError):
        driver.add(make_request("A", 0))
    assert driver.requests == []
    driver.finish()


def test_check_step_after_a_plan():
    scheduler = make_scheduler()
    scheduler.add_request(make_request("A", 4, 9))
    plan = scheduler.schedule()
    check_step(scheduler, plan)
    scheduler.requests["A"].num_computed_tokens = 99
    with pytest.raises(InvariantError, match=r"^I2: request 'A' has computed 95 tokens too"):
        check_step(scheduler, plan)


def test_prompts_are_their_names():
    assert prompt_tokens("A", 9) == prompt_tokens("A", 12)[:9]
    assert prompt_tokens("A", 9) != prompt_tokens("B", 9)
    assert max(prompt_tokens("A", 500, vocab_size=23)) < 23
