"""An executor that raises, hangs or dies at any point of any step: nothing is lost.

A hang is what a watchdog in the executor makes of it: an exception, some time later.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchwright import ExecutorError, SamplingParams
from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.protocols import (
    Feature,
    FeatureComponent,
    Gate,
    ModelSettings,
    SchedulingPolicy,
    WorkerSide,
)
from batchwright.testing import ScriptedExecutor, check_idle, make_plugin, prompt_tokens
from batchwright.verdicts import ADMIT, Preempt, Wait
from batchwright_engine import Engine


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logging.getLogger("batchwright").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("batchwright").setLevel(logging.NOTSET)


POINTS = ("before", "halfway", "after", "hang")


class Fragile(ScriptedExecutor):
    """Fails at chosen steps, at a chosen point of each; and in so many restarts."""

    name = "fragile"
    clock: Any = None

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        self.failures: dict[int, str] = {}
        self.bad_restarts = 0
        self.num_failures = 0
        self.num_calls = 0

    def execute(self, plan: Any) -> Any:
        point = self.failures.get(self.num_calls, "")
        self.num_calls += 1
        if point == "before":
            self._die("no device")
        if point == "halfway":  # some KV is written, nothing sampled
            self._update(plan)
            for request_id in list(plan.num_scheduled_tokens)[:1]:
                self._write(plan, request_id)
            self._die("lost halfway")
        output = super().execute(plan)
        if point == "hang":
            self.clock.advance(600.0)
            self._die("no answer for 600 s")
        if point == "after":
            self._die("the answer was lost")
        return output

    def restart(self) -> None:
        if self.bad_restarts:
            self.bad_restarts -= 1
            self._die("still no device")
        super().restart()

    def _die(self, what: str) -> None:
        self.num_failures += 1
        raise RuntimeError(what)


class Restless(SchedulingPolicy):
    """Displaces, pauses and releases, so that failures find requests in every state."""

    name = "restless"
    default_victim = "lowest-priority"

    def key(self, request: Any) -> Any:
        return request.priority

    def preempts(self, waiting: Any, running: Any) -> bool:
        return bool(waiting.priority < running.priority)

    def running_to_preempt(self, view: Any) -> Any:
        for index, request in enumerate(view.running):
            if request.num_output_tokens % 5 == 3:
                yield (
                    Preempt(request, keep_blocks=True)
                    if index % 2
                    else Preempt(request, keep_blocks=False)
                )


class Lookups(Feature):
    """Has requests wait for an answer of its executor half, as a connector would."""

    name = "lookups"

    def setup(self) -> None:
        self.asked: dict[str, None] = {}

    def components(self) -> Any:
        return [FeatureComponent(LookupGate)]

    def worker_side(self) -> Any:
        return LookupHalf()

    def build_metadata(self, plan: Any) -> Any:
        asked, self.asked = self.asked, {}
        return list(asked) or None

    def update_from_worker(self, extra: Any) -> None:
        for key in extra:
            self.ctx.signal(key)

    def on_restart(self) -> None:
        for request_id in self.waiting():
            self.ctx.signal(request_id)

    def waiting(self) -> list[str]:
        return list(self.__dict__.get("parked", {}))


class LookupGate(Gate):
    name = "lookup-gate"

    def pre_enqueue(self, request: Any) -> Any:
        if "lookups" not in request.features:
            return ADMIT
        feature = self.ctx.parts["feature"]
        feature.asked[request.request_id] = None
        feature.__dict__.setdefault("parked", {})[request.request_id] = None
        return Wait(request.request_id)


class LookupHalf(WorkerSide):
    def __init__(self) -> None:
        self.pending: list[tuple[int, str]] = []

    def before_step(self, plan: Any, extra: Any) -> None:
        self.pending += [(plan.step_id + 2, key) for key in extra or ()]

    def after_step(self, plan: Any, output: Any) -> Any:
        done = [key for due, key in self.pending if due <= plan.step_id]
        self.pending = [entry for entry in self.pending if entry[0] > plan.step_id]
        return done or None

    def on_restart(self) -> None:
        self.pending.clear()


def engine_of(
    *, depth: int = 1, caching: bool = True, num_blocks: int = 13, max_restarts: int = 3
) -> tuple[Engine, Fragile]:
    config = {
        "scheduler": {
            "policy": "restless",
            "pipeline_depth": depth,
            "max_num_seqs": 3,
            "max_num_batched_tokens": 20,
        },
        "kv": {"num_blocks": num_blocks, "block_size": 4, "enable_prefix_caching": caching},
        "feature": [{"use": "lookups"}],
        "observer": [{"use": "invariants"}],
    }
    plugin = make_plugin(policy=[Restless], feature=[Lookups])
    scheduler = scheduler_from_config(config, clock=VirtualClock(), plugins=[plugin])
    executor = Fragile.standalone(num_blocks, 4)
    assert isinstance(executor, Fragile)
    executor.clock = scheduler.clock
    (feature,) = scheduler.components.features
    executor.install(feature.name, feature.worker_side())
    model = evolve(executor.load(ModelSettings(path="fragile")), tokenizer=None)
    return Engine(scheduler, executor, model, max_restarts=max_restarts), executor


def run(engine: Engine, seed: int, *, aborts: bool = False) -> dict[str, Any]:
    """Requests over time; how each ended, with its tokens."""
    draw = random.Random(seed)
    arrivals = {
        f"r{i}": (draw.randint(0, 8), draw.randint(3, 14), draw.randint(1, 12), draw.randint(0, 3))
        for i in range(7)
    }
    shared = prompt_tokens("shared", 8)
    aborted = {f"r{draw.randint(0, 6)}": draw.randint(2, 12)} if aborts else {}
    ended: dict[str, Any] = {}
    for step in range(600):
        for name, (when, size, count, priority) in arrivals.items():
            if when == step:
                prompt = [*shared, *prompt_tokens(name, size)] if size % 2 else size
                features = {"lookups": True} if size % 3 == 0 else {}
                engine.add(
                    prompt if isinstance(prompt, list) else prompt_tokens(name, size),
                    SamplingParams(max_tokens=count, ignore_eos=True),
                    request_id=name,
                    priority=priority,
                    features=features,
                )
        for name, when in aborted.items():
            if when == step:
                engine.abort(name)
        if step > 12 and not engine.has_unfinished:
            break
        for output in engine.step():
            if output.finished:
                assert output.request_id not in ended, "told to have ended twice"
                ended[output.request_id] = (output.finish_reason, output.detail, output.token_ids)
    assert sorted(ended) == sorted(arrivals), "a request was lost"
    check_idle(engine.scheduler)
    return ended


FAILURES = st.dictionaries(st.integers(0, 40), st.sampled_from(POINTS), max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000),
    failures=FAILURES,
    depth=st.integers(1, 3),
    caching=st.booleans(),
    aborts=st.booleans(),
    bad_restarts=st.integers(0, 2),
)
def test_failures_change_no_token(
    seed: int, failures: Any, depth: int, caching: bool, aborts: bool, bad_restarts: int
) -> None:
    """None is lost, none is doubled, and tokens are those of the undisturbed run."""
    undisturbed = run(engine_of(depth=depth, caching=caching)[0], seed)
    engine, executor = engine_of(depth=depth, caching=caching, max_restarts=1000)
    executor.failures, executor.bad_restarts = failures, bad_restarts
    disturbed = run(engine, seed, aborts=aborts)
    for name, (reason, detail, tokens) in disturbed.items():
        if reason == "abort":
            assert tokens == undisturbed[name][2][: len(tokens)]
        else:
            assert (reason, detail, tokens) == undisturbed[name]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("point", POINTS)
def test_each_step_may_fail(point: str, depth: int) -> None:
    """Every single step, one after the other, in a run of its own."""
    engine, executor = engine_of(depth=depth)
    undisturbed = run(engine, 3)
    for step in range(executor.num_calls):
        engine, executor = engine_of(depth=depth)
        executor.failures = {step: point}
        assert run(engine, 3) == undisturbed
        assert executor.num_failures == 1


def test_a_restart_that_fails_is_tried_again_and_counted() -> None:
    undisturbed = run(engine_of()[0], 5)
    engine, executor = engine_of(max_restarts=3)
    executor.failures, executor.bad_restarts = {4: "before"}, 2
    assert run(engine, 5) == undisturbed
    engine, executor = engine_of(max_restarts=3)
    executor.failures, executor.bad_restarts = {4: "before"}, 3
    with pytest.raises(ExecutorError, match=r"failed 4 times in a row; last in restart\(\): Runt"):
        run(engine, 5)


@pytest.mark.parametrize("method", ["before_step", "after_step", "on_restart"])
def test_a_half_that_raises_fails_the_step_and_is_named(method: str) -> None:
    """Once: the step is repeated. Always: the run ends, and it is not the executor's fault."""
    undisturbed = run(engine_of()[0], 5)

    class Bad(LookupHalf):
        left = 1

    def fail(self: Any, *args: Any) -> Any:
        if self.left:
            self.left -= 1
            raise RuntimeError("boom")
        return getattr(LookupHalf, method)(self, *args)

    setattr(Bad, method, fail)
    engine, executor = engine_of()
    executor.install("lookups", Bad())
    executor.failures = {2: "before"}
    assert run(engine, 5) == undisturbed
    engine, executor = engine_of()
    bad = Bad()
    bad.left = 1000
    executor.install("lookups", bad)
    executor.failures = {2: "before"}
    with pytest.raises(ExecutorError, match=rf"feature 'lookups': {method}\(\) raised RuntimeErr"):
        run(engine, 5)


def test_who_waits_for_an_answer_that_was_lost_is_told() -> None:
    """Without ``on_restart`` the request would be parked for ever."""
    engine, executor = engine_of()
    executor.failures = {1: "before"}
    engine.add(prompt_tokens("a", 5), SamplingParams(max_tokens=9, ignore_eos=True), request_id="a")
    engine.add(
        prompt_tokens("b", 5),
        SamplingParams(max_tokens=3, ignore_eos=True),
        request_id="b",
        features={"lookups": True},
    )
    told = [o.request_id for _ in range(20) for o in engine.step() if o.finished]
    assert sorted(told) == ["a", "b"]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_an_engine_with_plans_in_flight_becomes_idle(depth: int) -> None:
    """It went on planning empty steps, so that ``has_unfinished`` stayed true for ever."""
    engine, _ = engine_of(depth=depth)
    engine.add([1, 2, 3], SamplingParams(max_tokens=2))
    for _ in range(10):
        engine.step()
        if not engine.has_unfinished:
            break
    assert not engine.has_unfinished
    check_idle(engine.scheduler)
