"""The invariants observer: quiet while all is well, and it ends the run if not.

What it finds is tested fault by fault in tests/core/scheduler/test_injected_faults.py.
"""

import logging

import pytest

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.exceptions import ConfigError, InvariantError
from batchwright.testing import ScriptedExecutor, make_request


def make_scheduler(depth=1, **options):
    return scheduler_from_config(
        {
            "scheduler": {"pipeline_depth": depth},
            "kv": {"num_blocks": 14},
            "observer": [{"use": "invariants", **options}],
        },
        clock=VirtualClock(),
    )


def turn(scheduler, executor):
    plan = scheduler.schedule()
    return scheduler.update_from_output(plan, executor.run(plan))


def test_a_clean_run_is_counted():
    scheduler, executor = make_scheduler(), ScriptedExecutor.standalone(14, 16)
    for name in "ABCD":
        scheduler.add_request(make_request(name, 50, 30))
    while scheduler.has_unfinished:
        turn(scheduler, executor)
    (observer,) = scheduler.components.observers
    assert observer.summary()["violations"] == {}
    assert observer.summary()["checks"] > 100


def test_a_violation_is_no_fault_of_the_observer(caplog):
    """It leaves schedule() as InvariantError, and the observer is not disabled."""
    scheduler = make_scheduler()
    scheduler.add_request(make_request("A", 5, 5))
    scheduler.kv_manager._references[3] = 1
    for _ in range(2):
        with pytest.raises(InvariantError, match=r"^E5: block 3 has 1 references") as caught:
            scheduler.schedule()
        assert caught.value.invariant == "E5"
        scheduler._state.in_flight.steps.clear()
    assert "disabled" not in caplog.text


def test_a_violation_can_be_logged_instead(caplog):
    scheduler, executor = make_scheduler(on_violation="log"), ScriptedExecutor.standalone(14, 16)
    scheduler.add_request(make_request("A", 5, 2))
    scheduler.kv_manager._references[3] = 1
    with caplog.at_level(logging.ERROR, "batchwright"):
        turn(scheduler, executor)
    assert "step 1: E5: block 3 has 1 references" in caplog.text
    assert scheduler.components.observers[0].summary()["violations"]["E5"] >= 2


@pytest.mark.parametrize("depth", [1, 3])
def test_plans_that_a_restart_voids_hold_no_blocks(depth):
    """After recover() the blocks of plans in flight may go to any request."""
    scheduler, executor = make_scheduler(depth), ScriptedExecutor.standalone(14, 16)
    scheduler.add_request(make_request("A", 60, 9))
    scheduler.add_request(make_request("B", 60, 9))
    turn(scheduler, executor)
    for _ in range(depth):
        scheduler.schedule()
    scheduler.recover()
    executor.restart()
    outputs = []
    while scheduler.has_unfinished:
        outputs.append(turn(scheduler, executor))
    assert [*outputs[-1].finished] == ["A", "B"]
    assert scheduler.kv_manager.num_free_blocks == 13


def test_an_unknown_reaction_is_refused():
    with pytest.raises(ConfigError, match="on_violation"):
        make_scheduler(on_violation="panic")
