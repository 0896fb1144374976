"""Notices that are unknown, repeated, late, out of order or never come; second resources.

``Transfers`` is a connector as far as the contracts go today: a request is parked, with no
seat and no block, until the half in the executor says that its transfer is done. What it
loads is not handed over (that needs a connector's part in ``allocate``), so that the prompt
is computed as usual; the life of the request around the load is what is tested.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from batchwright import RequestRefusedError, RequestStatus
from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.protocols import Feature, FeatureComponent, Gate, Resource, WorkerSide
from batchwright.testing import Driver, ScriptedExecutor, make_plugin, make_request
from batchwright.verdicts import ADMIT, Wait


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logging.getLogger("batchwright").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("batchwright").setLevel(logging.NOTSET)


LEASE = 12.0


class Transfers(Feature):
    """Parks who names a transfer; after ``LEASE`` seconds nobody waits any more."""

    name = "transfers"

    def setup(self) -> None:
        self.to_ask: list[tuple[str, Any]] = []

    def components(self) -> Any:
        return [FeatureComponent(TransferGate)]

    def worker_side(self) -> Any:
        return TransferHalf()

    def build_metadata(self, plan: Any) -> Any:
        asked, self.to_ask = self.to_ask, []
        return asked or None

    def update_from_worker(self, extra: Any) -> None:
        for key in extra:
            self.ctx.signal(key)

    def on_timer(self, key: str) -> None:
        self.ctx.signal(key)


class TransferGate(Gate):
    name = "transfer-gate"

    def pre_enqueue(self, request: Any) -> Any:
        script = request.features.get("transfers")
        if script is None:
            return ADMIT
        feature = self.ctx.components["feature"]
        feature.to_ask.append((request.request_id, script))
        feature.ctx.call_at(self.ctx.clock.now() + LEASE, request.request_id)
        return Wait(request.request_id)


class TransferHalf(WorkerSide):
    """Answers as each request's script says: after so many steps, each time anew."""

    def __init__(self) -> None:
        self.due: list[tuple[int, str]] = []

    def before_step(self, plan: Any, extra: Any) -> None:
        for key, script in extra or ():
            self.due += [(plan.step_id + wait, key) for wait in script]

    def after_step(self, plan: Any, output: Any) -> Any:
        done = [key for step, key in self.due if step <= plan.step_id]
        self.due = [entry for entry in self.due if entry[0] > plan.step_id]
        return done or None


def driver_of(*, depth: int = 1, usable: int = 8, size: int = 16, **scheduler: Any) -> Driver:
    made = scheduler_from_config(
        {
            "scheduler": {"pipeline_depth": depth, **scheduler},
            "kv": {"num_blocks": usable + 1, "block_size": size},
            "feature": [{"use": "transfers"}],
        },
        clock=VirtualClock(),
        plugins=[make_plugin(feature=[Transfers])],
    )
    executor = ScriptedExecutor.standalone(usable + 1, size)
    executor.install("transfers", made.components.features[0].worker_side())
    return Driver(made, executor, depth=depth)


def loads(name: str, size: int, count: int, *script: int) -> Any:
    return make_request(name, size, count, features={"transfers": list(script)})


class TestB06NoticesAndAborts:
    @pytest.mark.parametrize("depth", [1, 2, 3])
    @pytest.mark.parametrize("script", [(2,), (2, 2, 3), (9,), ()])
    def test_an_abort_frees_at_once(self, depth: int, script: Any) -> None:
        """Whether the notice comes in the same tick, later, twice or never."""
        driver = driver_of(depth=depth)
        driver.add(loads("A", 64, 4, *script))
        driver.turn()
        driver.turn()
        driver.abort("A")
        kv = driver.scheduler.kv_manager
        assert driver.scheduler.view.num_parked == 0
        driver.add(make_request("B", 30, 20))
        driver.finish()
        assert kv.num_free_blocks == 8
        assert driver.recorder.finished == {"A": "abort/aborted", "B": "length/max_tokens"}

    def test_fifty_aborts_without_other_traffic(self) -> None:
        driver = driver_of()
        for i in range(50):
            driver.add(loads(f"A{i}", 64, 4, 2))
            driver.turn()
            driver.abort(f"A{i}")
        driver.finish()
        assert set(driver.recorder.finished.values()) == {"abort/aborted"}

    def test_a_notice_that_never_comes_has_a_lease(self) -> None:
        driver = driver_of()
        driver.add(loads("A", 64, 4))
        driver.finish(max_steps=40)
        first = next(step for step, grants in enumerate(driver.recorder.grants) if grants)
        assert first == LEASE + 1  # a notice is heeded at the next step
        assert driver.recorder.finished == {"A": "length/max_tokens"}

    def test_a_late_notice_wakes_no_other_of_that_name(self) -> None:
        """An id is used again: the first one's notice is early for the second, not fatal."""
        driver = driver_of()
        driver.add(loads("A", 64, 4, 6))
        driver.turn()
        driver.abort("A")
        driver.turn()
        driver.requests.clear()
        driver.recorder.finished.clear()
        driver.add(loads("A", 32, 4, 9))
        driver.finish()
        assert driver.recorder.finished == {"A": "length/max_tokens"}


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("reset", [False, True])
def test_answers_in_flight_meet_a_preemption(depth: int, reset: bool) -> None:
    driver = driver_of(depth=depth, usable=6, size=4)
    driver.add(make_request("A", 8, 12), make_request("B", 8, 12))
    while driver.scheduler.requests:
        driver.turn()
        if reset:
            driver.scheduler.reset_prefix_cache()
    driver.finish()
    assert sum(request.num_preemptions for request in driver.requests) > 0


@pytest.mark.parametrize("depth", [2, 3])
def test_blocks_of_who_ended_wait_for_the_steps_in_flight(depth: int) -> None:
    """R's transfer is done just when A ends, and A's blocks are all that there is."""
    driver = driver_of(depth=depth, usable=4, size=4)
    driver.add(make_request("A", 13, 3), loads("R", 12, 3, 3))
    driver.finish()  # I5: nobody got a block that a plan in flight computes in
    assert driver.recorder.finished == dict.fromkeys("AR", "length/max_tokens")


@pytest.mark.parametrize("usable", [20, 16])
@pytest.mark.parametrize("with_local", [False, True])
def test_parked_requests_hold_nothing(usable: int, with_local: bool) -> None:
    """Two loads that do not fit together: neither holds blocks, so both finish, by turns."""
    driver = driver_of(usable=usable)
    driver.add(loads("A", 240, 1, 3), loads("B", 224, 1, 3))
    driver.turn()
    assert driver.scheduler.view.num_parked == 2
    assert driver.scheduler.kv_manager.num_free_blocks == usable
    if with_local:
        driver.add(make_request("C", 64, 30))
    driver.finish()
    assert len(driver.recorder.finished) == 2 + with_local


@pytest.mark.parametrize("script", [(), (1_000,)])
def test_parked_requests_take_no_seat(script: Any) -> None:
    driver = driver_of(max_num_seqs=4)
    driver.add(*(loads(f"S{i}", 8, 4, *script) for i in range(4)), make_request("P", 8, 4))
    driver.turn()
    assert driver.recorder.grants == [{"P": 8}]
    parked = driver.scheduler.requests["S0"]
    assert parked.waiting_reason == "gate 'transfer-gate' (waits for 'S0')"
    driver.finish()


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_random_notices_break_nothing(depth: int) -> None:
    """Unknown, repeated, late and early ones, and aborts, in any order."""
    for seed in range(40):
        draw = random.Random(seed)
        driver = driver_of(depth=depth, usable=9, size=4, max_num_seqs=3)
        for i in range(12):
            script = [draw.randint(0, 9) for _ in range(draw.randint(0, 3))]
            driver.add(loads(f"r{i}", draw.randint(1, 20), draw.randint(1, 9), *script))
            for _ in range(draw.randint(0, 3)):
                driver.turn()
            for notice in (driver.scheduler.signal, driver.scheduler.signal):
                notice(f"r{draw.randint(0, 20)}")
            if draw.random() < 0.3:
                driver.abort(f"r{draw.randint(0, i)}")
        driver.finish()
        for request in driver.requests:
            assert request.status is not RequestStatus.FINISHED_ERROR


class Adapters(Resource):
    """At most two different adapters run."""

    name = "adapters"

    def setup(self) -> None:
        self.users: dict[str, list[str]] = {}

    def reserve(self, request: Any) -> bool:
        name = request.adapter
        if name is None:
            return True
        if name not in self.users and len(self.users) == 2:
            return False
        self.users.setdefault(name, []).append(request.request_id)
        return True

    def unreserve(self, request: Any) -> None:
        if request.adapter is not None:
            self.users[request.adapter].remove(request.request_id)
            if not self.users[request.adapter]:
                del self.users[request.adapter]
                self.ctx.signal("adapter slot")

    def waits_for(self, request: Any) -> str:
        return "adapter slot"


def resource_driver(cls: type, **kv: Any) -> tuple[Driver, Any]:
    made = scheduler_from_config(
        {"kv": kv, "resource": [{"use": cls.name}], "scheduler": {"max_num_batched_tokens": 16}},  # type: ignore[attr-defined]
        clock=VirtualClock(),
        plugins=[make_plugin(resource=[cls])],
    )
    return Driver(made), made.components.resources[0]


def test_a_slot_is_charged_for_who_runs_and_nobody_else() -> None:
    driver, slots = resource_driver(Adapters, num_blocks=13, block_size=4)
    driver.add(make_request("L1", 24, 12, adapter="one"))  # mid-chunk for two steps
    driver.turn()
    driver.add(make_request("L2", 40, 4, adapter="two"))  # finds no blocks at first
    driver.turn()
    assert list(slots.users) == ["one"]
    for name, adapter in (("L3", "three"), ("base", None), ("again", "one")):
        driver.add(make_request(name, 4, 3, adapter=adapter))
    for i in range(12):
        driver.add(make_request(f"more{i}", 4, 3, adapter=("one", "two")[i % 2]))
        driver.turn()
        running = {r.adapter for r in driver.scheduler.running} - {None}
        assert len(running) <= 2
        assert running == set(slots.users)
    driver.finish()
    assert slots.users == {}
    assert set(driver.recorder.finished.values()) == {"length/max_tokens"}


class ItemCache(Resource):
    """100 slots for encoder items; an item lives as long as somebody uses it."""

    name = "items"

    def setup(self) -> None:
        self.users: dict[str, list[str]] = {}
        self.sizes: dict[str, int] = {}

    def never(self, request: Any) -> str | None:
        total = sum(dict(request.hints["items"]).values())
        return f"its items take {total} of 100" if total > 100 else None

    def reserve(self, request: Any) -> bool:
        items = dict(request.hints["items"])  # the same item twice is stored once
        new = sum(size for item, size in items.items() if item not in self.users)
        if sum(self.sizes.values()) + new > 100:
            return False
        for item, size in items.items():
            self.users.setdefault(item, []).append(request.request_id)
            self.sizes[item] = size
        return True

    def unreserve(self, request: Any) -> None:
        for item in dict(request.hints["items"]):
            self.users[item].remove(request.request_id)
            if not self.users[item]:
                del self.users[item], self.sizes[item]


def test_a_second_resource_obeys_the_rules_of_the_first() -> None:
    driver, cache = resource_driver(ItemCache, num_blocks=9, block_size=4)
    with pytest.raises(RequestRefusedError, match="its items take 120 of 100"):
        driver.add(make_request("big", 4, 2, hints={"items": [("x", 120)]}))
    driver.add(make_request("R0", 16, 8, hints={"items": [("y", 30), ("y", 30)]}))
    driver.turn()
    assert cache.sizes == {"y": 30}
    driver.add(make_request("R1", 20, 2, hints={"items": [("a", 60)]}))  # no blocks for it
    driver.add(make_request("R2", 4, 2, hints={"items": [("b", 60), ("y", 30)]}))
    driver.turn()
    assert cache.sizes == {"y": 30}  # what R1 had was given back
    driver.finish()
    assert cache.sizes == cache.users == {}
    assert set(driver.recorder.finished.values()) == {"length/max_tokens"}
