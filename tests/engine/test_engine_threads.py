"""Calls of other threads while one drives the engine. No clock decides: events do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from batchwright import MonotonicClock, SamplingParams, Scheduler, StepError, VirtualClock
from batchwright.assembly import scheduler_from_config
from batchwright.protocols import Gate, ModelSettings, Resource
from batchwright.testing import ScriptedExecutor, make_plugin, make_request
from batchwright.verdicts import ADMIT, Stop, Wait
from batchwright_engine import Engine

TWO = SamplingParams(max_tokens=2, ignore_eos=True)


def make_engine(*, plugins: Any = (), **sections: Any) -> Engine:
    sections["kv"] = {"num_blocks": 40, "block_size": 4}
    scheduler = scheduler_from_config(sections, clock=VirtualClock(), plugins=plugins)
    executor = ScriptedExecutor.standalone(40, 4)
    return Engine(scheduler, executor, executor.load(ModelSettings(path="scripted")))


class Parks(Gate):
    name = "parks"

    def pre_enqueue(self, request: Any) -> Any:
        return Wait("door")


def in_thread(work: Callable[[], Any]) -> Any:
    """Do something in another thread, and wait for it."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    return found[0]


def finish(engine: Engine) -> dict[str, Any]:
    ended = {}
    while engine.has_unfinished:
        ended.update({o.request_id: o.finish_reason for o in engine.step() if o.finished})
    return ended


def test_threads_add_and_abort_while_steps_are_computed() -> None:
    """In each step one more request comes from another thread, and one is aborted there."""
    engine = make_engine()
    execute, added = engine.executor.execute, []

    def add_meanwhile(plan: Any) -> Any:
        if len(added) < 40:
            added.append(in_thread(lambda: engine.add([1, 2, len(added)], TWO)))
            if len(added) == 20:
                in_thread(lambda: engine.abort(added[-1]))
        return execute(plan)

    engine.executor.execute = add_meanwhile  # type: ignore[method-assign]
    first = engine.add([7, 8], TWO)
    expected = {first: "length"} | {f"request-{i}": "length" for i in range(1, 41)}
    assert finish(engine) == expected | {"request-20": "abort"}


def test_a_request_that_is_added_while_a_step_is_planned_waits_for_that() -> None:
    """The other thread is let go by the planning one, and gets in behind it."""
    threads: list[threading.Thread] = []

    class Interrupted(Gate):
        name = "interrupted"

        def pre_filter(self, request: Any, view: Any) -> Any:
            if not threads:
                threads.append(threading.Thread(target=engine.add, args=([3, 4], TWO)))
                threads[0].start()
            return ADMIT

    engine = make_engine(plugins=[make_plugin(gate=[Interrupted])], gate=[{"use": "interrupted"}])
    engine.add([1, 2], TWO)
    engine.step()
    threads[0].join(60)
    assert finish(engine) == {"request-0": "length", "request-1": "length"}


def test_a_sleeping_engine_is_woken_by_a_notice() -> None:
    engine = make_engine(plugins=[make_plugin(gate=[Parks])], gate=[{"use": "parks"}])
    engine.add([1, 2], TWO)
    sleeps = threading.Event()
    bell = engine.scheduler.bell
    wait = bell.wait

    def tell(num_rings: int, seconds: float) -> None:
        assert seconds == 1.0
        sleeps.set()
        wait(num_rings, 60)

    bell.wait = tell  # type: ignore[method-assign]
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(finish(engine)))
    thread.start()
    assert sleeps.wait(60)
    engine.scheduler.signal("door")
    thread.join(50)
    assert ended == [{"request-0": "length"}]


def test_a_ring_between_planning_and_sleeping_is_not_lost() -> None:
    bell = Scheduler.from_config().bell
    before = bell.num_rings
    bell.ring()
    bell.wait(before, 1e6)


def test_a_second_thread_that_steps_is_refused() -> None:
    engine = make_engine()
    engine.add([1, 2], TWO)
    execute, found = engine.executor.execute, []

    def step_meanwhile(plan: Any) -> Any:
        found.append(in_thread(engine.step))
        return execute(plan)

    engine.executor.execute = step_meanwhile  # type: ignore[method-assign]
    engine.step()
    assert isinstance(found[0], StepError)
    assert "one thread drives an engine" in str(found[0])


def test_a_scheduler_refuses_another_thread_by_name() -> None:
    found = []

    class Asks(Gate):
        name = "asks"

        def pre_filter(self, request: Any, view: Any) -> Any:
            found.append(in_thread(lambda: scheduler.add_request(make_request("b", 4, 2))))
            return ADMIT

    scheduler = make_engine(plugins=[make_plugin(gate=[Asks])], gate=[{"use": "asks"}]).scheduler
    scheduler.add_request(make_request("a", 4, 2))
    assert scheduler.schedule().num_scheduled_tokens == {"a": 4}
    assert "add_request() was called while another thread was in schedule()" in str(found[0])
    assert list(scheduler.requests) == ["a"]


class Slow(Resource):
    """An adapter that another thread loads."""

    name = "slow"
    key: str | None = "loaded"
    is_loaded = False

    def reserve(self, request: Any) -> bool:
        return self.is_loaded or request.adapter is None

    def unreserve(self, request: Any) -> None:
        pass

    def waits_for(self, request: Any) -> str | None:
        return self.key


class Holds(Gate):
    name = "holds"

    def pre_filter(self, request: Any, view: Any) -> Any:
        return Stop("held") if request.adapter is None else ADMIT


@pytest.mark.parametrize("key", ["loaded", None])
def test_the_guard_overrules_no_gate_while_something_waits_for_the_outside(
    make_bench: Any, key: str | None
) -> None:
    slow = type("Slower", (Slow,), {"key": key})
    plugins = [make_plugin(gate=[Holds], resource=[slow])]
    sections = {"gate": [{"use": "holds"}], "resource": [{"use": "slow"}]}
    b = make_bench(plugins=plugins, sections=sections, backfill=1)
    b.add("adapted", 4, 1, adapter="x")
    b.add("held", 4, 1)
    assert b.steps(200) == [{}] * 200
    assert b.scheduler.progress_guard.num_interventions == 0
    b.scheduler.components.resources[0].is_loaded = True
    b.scheduler.signal("loaded")
    assert b.step() == {"adapted": 4}
    b.drain(limit=20)  # nothing waits for the outside now: the gate contradicts itself
    assert b.scheduler.progress_guard.num_interventions > 0


def test_the_guard_leaves_parked_requests_and_gates_alone(make_bench: Any) -> None:
    class Either(Holds):
        name = "either"

        def pre_enqueue(self, request: Any) -> Any:
            return ADMIT if request.adapter is None else Wait("door")

    sections = {"gate": [{"use": "either"}]}
    b = make_bench(plugins=[make_plugin(gate=[Either])], sections=sections)
    b.add("parked", 4, 1, adapter="x")
    b.add("held", 4, 1)
    assert b.steps(20) == [{}] * 20
    assert b.scheduler.progress_guard.num_interventions == 0
    b.scheduler.signal("door")
    b.drain(limit=20)


def test_an_alarm_does_not_keep_a_notice_waiting() -> None:
    engine = make_engine(plugins=[make_plugin(gate=[Parks])], gate=[{"use": "parks"}])
    engine.scheduler._state.clock = engine.scheduler.ctx.clock = MonotonicClock()
    engine.scheduler._state.clock_timers.set(1e9, (engine.scheduler.components.policy, None))
    engine.add([1, 2], TWO)
    waits: list[float] = []
    engine.scheduler.bell.wait = (  # type: ignore[method-assign]
        lambda num_rings, seconds: waits.append(seconds) or engine.scheduler.signal("door")
    )
    assert finish(engine) == {"request-0": "length"}
    assert waits == [1.0]


def test_close_in_the_middle_of_a_step_is_refused() -> None:
    """The step goes on, and the thread that drives closes the engine behind it."""
    engine = make_engine()
    engine.add([1, 2], TWO)
    execute, found = engine.executor.execute, []

    def close_meanwhile(plan: Any) -> Any:
        found.append(in_thread(engine.close))
        return execute(plan)

    engine.executor.execute = close_meanwhile  # type: ignore[method-assign]
    assert finish(engine) == {"request-0": "length"}
    assert "close() was called while step() went on" in str(found[0])
    engine.close()


def test_an_id_is_used_again_as_soon_as_its_end_is_told() -> None:
    """Another thread takes it between two phases of the step that ends the first request."""
    engine = make_engine()
    lap = engine._pipeline.lap
    added: list[threading.Thread] = []

    def add_again(phase: str) -> None:
        lap(phase)
        if not engine.scheduler.requests and not added:
            thread = threading.Thread(
                target=engine.add, args=([3, 4], TWO), kwargs={"request_id": "a"}
            )
            added.append(thread)
            thread.start()

    engine._pipeline.lap = add_again
    engine.add([1, 2], SamplingParams(max_tokens=1, ignore_eos=True), request_id="a")
    (first,) = engine.step()
    added[0].join(60)
    assert (len(first.token_ids), first.finish_reason) == (1, "length")
    assert finish(engine) == {"a": "length"}
