"""Random configurations, arrivals, aborts and notices: everything must hold, always."""

import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from batchwright.assembly import Assembly
from batchwright.clock import VirtualClock
from batchwright.config import Config
from batchwright.exceptions import RequestRefusedError
from batchwright.plugin_manager import PluginManager
from batchwright.testing import Driver, ScriptedExecutor, fakes, make_request
from batchwright.testing.strategies import KEYS, configurations, request_plans

PLUGINS = PluginManager.discover((), (), extra=(fakes,))
VOCABULARY, EOS_ONE_IN = 23, 12
QUIET = {"suppress_health_check": list(HealthCheck), "deadline": None}


@pytest.fixture(autouse=True)
def _quiet():
    """Warnings about small pools and stalls are what these tests provoke."""
    logging.getLogger("batchwright").setLevel(logging.ERROR)
    yield
    logging.getLogger("batchwright").setLevel(logging.NOTSET)


def make_scheduler(config, *, visit_everyone=False):
    limits = config["limit"] + ([{"use": "visit-everyone"}] if visit_everyone else [])
    parsed = Config.from_dict({**config, "limit": limits})
    return Assembly(parsed, plugins=PLUGINS, clock=VirtualClock()).scheduler()


def make_driver(config, *, num_draft_tokens=0, visit_everyone=False):
    scheduler = make_scheduler(config, visit_everyone=visit_everyone)
    executor = ScriptedExecutor.standalone(
        config["kv"]["num_blocks"],
        config["kv"]["block_size"],
        vocab_size=VOCABULARY,
        eos_one_in=EOS_ONE_IN,
        num_draft_tokens=num_draft_tokens,
    )
    return Driver(scheduler, executor, depth=config["scheduler"]["pipeline_depth"])


def hint_gate(driver):
    return driver.scheduler.components.gates[0]


def add(driver, plan, request_id):
    """Add a request, if it could ever run; no two of them arrive at the same time."""
    model = driver.executor.model
    driver.scheduler.clock.advance(1e-3)
    request = plan.make(request_id, vocab_size=model.vocab_size, eos_token_id=model.eos_token_id)
    try:
        driver.add(request)
    except RequestRefusedError as error:
        assert "KV blocks" in str(error) or "max_model_len" in str(error)  # noqa: PT017
        assert request_id not in driver.scheduler.requests


def finish(driver):
    """Let everything come that was waited for, and run to the end."""
    for key in KEYS:
        driver.scheduler.signal(key)
        hint_gate(driver).let_pass(key)
    driver.finish(max_steps=3000)
    kv = driver.scheduler.kv_manager
    for request in driver.requests:
        if request.finish.detail == "kv_capacity":
            size = driver.scheduler.sizes.block_size
            assert request.num_tokens > kv.num_usable_blocks * size - 1
            assert request.num_preemptions <= 1 or len(driver.requests) > 1


class SchedulerMachine(RuleBasedStateMachine):
    """Whatever is done to a scheduler, in whatever order, E1 to E7 hold."""

    visit_everyone = False

    @initialize(config=configurations(), num_drafts=st.sampled_from([0, 0, 1, 3]))
    def start(self, config, num_drafts):
        if config["scheduler"]["pipeline_depth"] > 1:
            num_drafts = 0
        self.driver = make_driver(
            config, num_draft_tokens=num_drafts, visit_everyone=self.visit_everyone
        )
        self.num_added = 0

    @property
    def scheduler(self):
        return self.driver.scheduler

    @rule(plans=st.lists(request_plans(), min_size=1, max_size=4))
    def add_requests(self, plans):
        for plan in plans:
            add(self.driver, plan, f"r{self.num_added}")
            self.num_added += 1

    @precondition(lambda self: self.driver.num_in_flight < self.driver.depth)
    @rule()
    def plan(self):
        self.driver.plan()

    @precondition(lambda self: self.driver.num_in_flight)
    @rule()
    def compute(self):
        self.driver.compute()

    @precondition(lambda self: self.driver.num_in_flight)
    @rule()
    def update(self):
        self.driver.update()

    @rule(steps=st.integers(1, 12))
    def turns(self, steps):
        for _ in range(steps):
            self.driver.turn()

    @precondition(lambda self: self.scheduler.requests)
    @rule(data=st.data())
    def abort(self, data):
        live = list(self.scheduler.requests)
        self.driver.abort(data.draw(st.sampled_from(live)))

    @rule(number=st.integers(0, 40))
    def abort_any(self, number):
        self.driver.abort(f"r{number}")

    @rule(key=st.sampled_from([*KEYS, "unknown"]))
    def signal(self, key):
        self.scheduler.signal(key)

    @rule(key=st.sampled_from(KEYS))
    def open_key(self, key):
        hint_gate(self.driver).let_pass(key)

    @rule()
    def pause_a_step(self):
        self.scheduler.pause()
        self.driver.turn()
        self.scheduler.resume()

    @rule()
    def reset_prefix_cache(self):
        self.scheduler.reset_prefix_cache()

    @precondition(lambda self: self.scheduler.running)
    @rule(data=st.data())
    def fail_one(self, data):
        running = [request.request_id for request in self.scheduler.running]
        self.driver.executor.errors[data.draw(st.sampled_from(running))] = "out of luck"

    def teardown(self):
        if hasattr(self, "driver"):
            finish(self.driver)


class ScanMachine(SchedulerMachine):
    """The same with every running request visited at each step."""

    visit_everyone = True


@pytest.mark.parametrize("machine", [SchedulerMachine, ScanMachine])
@pytest.mark.parametrize(
    ("num_lives", "num_steps"),
    [
        (120, 25),
        pytest.param(300, 50, marks=pytest.mark.slow),
        pytest.param(1200, 50, marks=pytest.mark.nightly),
    ],
)
def test_everything_holds(machine, num_lives, num_steps):
    """Short lives of a scheduler, with and without the fast path."""
    run_state_machine_as_test(
        machine, settings=settings(max_examples=num_lives, stateful_step_count=num_steps, **QUIET)
    )


OPERATIONS = st.one_of(
    st.tuples(st.just("add"), request_plans()),
    st.tuples(st.just("turn"), st.integers(1, 12)),
    st.tuples(st.just("turn"), st.integers(1, 12)),
    st.tuples(st.just("abort"), st.integers(0, 12)),
    st.tuples(st.just("open"), st.sampled_from(KEYS)),
    st.tuples(st.just("signal"), st.sampled_from(KEYS)),
)


def apply(driver, operation, argument, number):
    if operation == "add":
        add(driver, argument, f"r{number}")
    elif operation == "turn":
        for _ in range(argument):
            driver.turn()
    elif operation == "abort":
        driver.abort(f"r{argument}")
    elif operation == "open":
        hint_gate(driver).let_pass(argument)
    else:
        driver.scheduler.signal(argument)


def run_operations(config, operations, *, visit_everyone, num_draft_tokens=0):
    driver = make_driver(config, visit_everyone=visit_everyone, num_draft_tokens=num_draft_tokens)
    for number, (operation, argument) in enumerate(operations):
        apply(driver, operation, argument, number)
    finish(driver)
    return driver


@settings(max_examples=200, **QUIET)
@given(
    config=configurations(max_depth=1),
    operations=st.lists(OPERATIONS, min_size=1, max_size=25),
    num_drafts=st.sampled_from([0, 0, 0, 2]),
)
def test_fast_path_makes_the_plans_of_the_full_scan(config, operations, num_drafts):
    """Advancing decodes together changes no field of any plan, block ids included."""
    full, fast = (
        run_operations(
            config, operations, visit_everyone=everyone, num_draft_tokens=num_drafts
        ).recorder
        for everyone in (True, False)
    )
    assert full.plans == fast.plans
    assert full.outputs == fast.outputs
    assert full.finished == fast.finished


def test_fast_path_is_taken():
    """The two builds that are compared differ: one carries decodes, one does not."""
    config = {
        "scheduler": {"pipeline_depth": 1},
        "kv": {"num_blocks": 20, "block_size": 4},
        "gate": [{"use": "hint"}],
        "limit": [],
    }
    fast, full = (make_driver(config, visit_everyone=everyone) for everyone in (False, True))
    for driver in (fast, full):
        for name in "AB":
            driver.add(make_request(name, 3, 9))
        for _ in range(3):
            driver.turn()
    assert len(fast.scheduler._state.decode_batch) == 2
    assert len(full.scheduler._state.decode_batch) == 0
