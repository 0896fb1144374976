"""A hostile component for every method of every kind: each is named, nobody else suffers.

``CASES`` says how a failure of a method must end. A method that a protocol declares and
that has no case here fails ``test_every_method_has_its_hostile_component``.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from attrs import define, field, frozen

from batchwright import BatchwrightError, PluginError, RequestRefusedError, Scheduler, StepError
from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.protocols import (
    Control,
    Feature,
    FeatureComponent,
    Gate,
    Limit,
    Observer,
    Predictor,
    Preemption,
    PrefixHit,
    Resource,
    SchedulingPolicy,
    Victim,
    WorkerSide,
)
from batchwright.protocols.control import Caps
from batchwright.queues import KeyedQueue, WaitingQueue
from batchwright.request import RequestStatus
from batchwright.request_view import RequestView
from batchwright.scheduler.state import SchedulerView
from batchwright.testing import Driver, ScriptedExecutor, make_plugin, make_request
from batchwright.verdicts import ADMIT, Defer, Preempt, Stop
from batchwright_plugins.kv import Lru, PagedKV, Sha256


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logging.getLogger("batchwright").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("batchwright").setLevel(logging.NOTSET)


NAN = float("nan")
STRANGER = make_request("stranger", 4).view
ENDED = make_request("ended", 4).view
ENDED._request.status = RequestStatus.FINISHED_STOPPED


class Unspeakable:
    """Fails at whatever is done with it, even at being shown."""

    def __repr__(self) -> str:
        raise ValueError("no words")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    __hash__ = None  # type: ignore[assignment]


ODD = [None, "x", -1, 1.5, NAN, object(), Unspeakable(), STRANGER, ENDED, [None]]


# -- What each kind does when it behaves, so that every method of it is called ---------


class SanePolicy(SchedulingPolicy):
    name = "mine"
    default_victim = "lowest-priority"

    def key(self, request: Any) -> Any:
        return request.priority

    def on_add(self, request: Any) -> None:
        self.ctx.predict(request)
        self.ctx.call_at_tokens(request, num_computed_tokens=request.num_prompt_tokens + 2)
        for seconds in range(3):
            self.ctx.call_at(self.ctx.clock.now() + seconds)

    def preempts(self, waiting: Any, running: Any) -> bool:
        return waiting.priority < running.priority


class SaneGate(Gate):
    name = "mine"

    def on_add(self, request: Any) -> None:
        self.ctx.call_at(self.ctx.clock.now() + 1)


class SaneLimit(Limit):
    name = "mine"
    affects_decode = True

    def max_tokens(self, request: Any, num_tokens: int, view: Any) -> int:
        return num_tokens


class SaneResource(Resource):
    """Two seats, with a key."""

    name = "mine"

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        self.held: dict[str, None] = {}

    def reserve(self, request: Any) -> bool:
        if len(self.held) < 2:
            self.held[request.request_id] = None
        return request.request_id in self.held

    def unreserve(self, request: Any) -> None:
        del self.held[request.request_id]
        self.ctx.signal("seat")

    def waits_for(self, request: Any) -> str | None:
        return "seat"


class SaneVictim(Victim):
    name = "mine"

    def choose(self, running: Any, needy: Any, view: Any) -> Any:
        return next(reversed(running))


class SanePreemption(Preemption):
    name = "mine"

    def keep(self, request: Any, block_ids: Any) -> int:
        return 0


class SanePredictor(Predictor):
    name = "mine"

    def output_tokens(self, requests: Any) -> Any:
        return [3.0] * len(requests)


class Echo(WorkerSide):
    def after_step(self, plan: Any, output: Any) -> Any:
        return plan.step_id


class SaneFeature(Feature):
    name = "mine"

    def worker_side(self) -> Any:
        return Echo()


class SaneControl(Control):
    name = "mine"

    def on_add(self, request: Any) -> None:
        self.ctx.call_at_tokens(request, num_computed_tokens=request.num_prompt_tokens + 2)


class SaneObserver(Observer):
    name = "mine"


class MyKV(PagedKV):
    name = "mine"


class MyHasher(Sha256):
    name = "mine"


class MyEviction(Lru):
    name = "mine"


SANE = {
    "policy": SanePolicy,
    "gate": SaneGate,
    "control": SaneControl,
    "limit": SaneLimit,
    "resource": SaneResource,
    "victim": SaneVictim,
    "preemption": SanePreemption,
    "predictor": SanePredictor,
    "feature": SaneFeature,
    "observer": SaneObserver,
    "kv": MyKV,
    "hasher": MyHasher,
    "eviction": MyEviction,
}
LISTED = {"gate", "control", "limit", "resource", "feature", "observer"}


# -- How a failure of each method ends ---------------------------------------------------


@frozen
class Case:
    """How a failure of a method ends.

    Args:
        end: ``request``: the request that it was about ends with an error. ``refused``:
            it is not even taken in. ``step``: counted, and three in a row end the run.
            ``run``: the run ends at once. ``start``: there is no run. ``disabled``: it is
            called no more. ``logged``: nothing else happens.
        nonsense: Answers that are failures, too; others are as good as none.
        named: How messages call the method, if not by its name.
    """

    end: str
    nonsense: list[Any] = field(factory=list)
    named: str = ""


def without(*allowed: Any) -> list[Any]:
    return [odd for odd in ODD if not any(odd is a for a in allowed)]


LIFECYCLE = {name: Case("step") for name in ("on_add", "on_admit", "on_preempt", "on_finish")}
START = {"setup": Case("start"), "close": Case("logged")}
ABOUT = {**LIFECYCLE, **START}
CASES: dict[str, dict[str, Case]] = {
    "policy": {
        **ABOUT,
        "make_queue": Case("start"),
        "key": Case("request", [None, "x", NAN, True, object(), (1, NAN), [1]]),
        "requeue": Case("request"),
        "running_key": Case("request", [None, "x", NAN, True, Unspeakable()]),
        "running_to_preempt": Case(
            "step",
            [
                None,
                5,
                [None],
                [STRANGER],
                [Preempt(STRANGER, keep_blocks=True)],
                [Preempt(ENDED, keep_blocks=True)],
            ],
        ),
        "preempts": Case("step", without()),
        "account": Case("request", [[], {}, Unspeakable()]),
        "on_tokens": Case("step"),
        "on_timer": Case("step"),
    },
    "gate": {
        **ABOUT,
        "pre_enqueue": Case("refused", [*without(), True, Defer(), Stop()]),
        "open": Case("step", without()),
        "pre_filter": Case("request", [*without(), True]),
        "filter": Case("request", [*without(), True]),
        "on_timer": Case("step"),
    },
    "control": {
        **ABOUT,
        "caps": Case("step", [*without(None), Caps(num_tokens=-1), Caps(num_admissions=NAN)]),
        "on_tokens": Case("step"),
    },
    "limit": {**ABOUT, "max_tokens": Case("request", [*without(), True])},
    "resource": {
        **ABOUT,
        "never": Case("refused", without(None, "x")),
        "reserve": Case("request", without()),
        "unreserve": Case("step"),
        "waits_for": Case("request", [-1, NAN, object(), Unspeakable(), STRANGER]),
    },
    "victim": {**ABOUT, "choose": Case("step", without())},
    "preemption": {**ABOUT, "keep": Case("step", without())},
    "predictor": {
        **ABOUT,
        "output_tokens": Case("step", [*without(), [NAN], [-1.0], [float("inf")], ["x"], []]),
        "summary": Case("logged"),
    },
    "feature": {
        **ABOUT,
        "components": Case(
            "start", [None, 5, [None], [FeatureComponent(SaneVictim)], [FeatureComponent(5)]]
        ),
        "worker_side": Case("start"),
        "check": Case("refused", without(None, "x")),
        "build_metadata": Case("step"),
        "update_from_worker": Case("step"),
        "on_restart": Case("step"),
    },
    "observer": {
        **{name: Case("disabled") for name in (*LIFECYCLE, "on_step", "on_outputs")},
        **START,
        "summary": Case("logged"),
    },
    "kv": {
        **ABOUT,
        "lookup": Case("run", [*without(), PrefixHit(1000), PrefixHit(-1)]),
        "num_needed": Case("run", without(-1)),
        "allocate": Case("run", without(None, ODD[-1])),
        "allocate_decodes": Case("run"),
        "block_ids": Case("run"),
        "detach": Case("run"),
        "free": Case("run"),
        "unpublish": Case("run"),
        "unpublish_blocks": Case("run"),
        "reset_prefix_cache": Case("run"),
        "forget": Case("run"),
        # Called by components, or by checks: the failure is the caller's.
        "hit_length": Case("logged"),
        "num_own_blocks": Case("logged"),
        "audit": Case("logged"),
        "published_blocks": Case("logged"),
        "fast_forward_decodes": Case(
            "logged"
        ),  # called in simulations alone: see tests/lab/simulation
        "num_usable_blocks": Case("logged"),
        "num_free_blocks": Case("run"),
        "usage": Case("logged"),
    },
    "hasher": {**START, "digest": Case("run")},
    "eviction": {
        **START,
        "add_empty": Case("run"),
        "add_cached": Case("run"),
        "take": Case("run"),
        "take_many": Case("run"),
        "remove": Case("run"),
        "__len__": Case("run"),
        "__iter__": Case("logged"),
    },
}
ELSEWHERE = {
    "executor": "test_executor_failures",
    "attention": "an executor's part: its failures are the executor's",
    "command": "not part of a run",
    "estimator": "its failures are those of who asks it",
    "workload": "not part of a scheduler",
    "scheduler": "test_step_scheduler",
}
QUEUE = {
    "peek": Case("step", [*without(), 5]),
    "insert": Case("request"),
    "remove": Case("run"),
    "restore": Case("run"),
    "forget": Case("run"),
}
QUEUE_UNCALLED = {
    # What ``insert`` shares, and what only explanations call: the room counts for itself.
    "add", "requeue", "put_first", "first", "rekey", "pop", "__len__", "__contains__", "__iter__",
}  # fmt: skip


BY_RUNTIMES = {"flush"}
"""Methods that a runtime calls which may be killed; no scheduler does."""


def declared(base: type) -> set[str]:
    """The methods of a contract."""
    public = {n for n in dir(base) if not n.startswith("_") and _is_method(base, n)}
    return (public | getattr(base, "__abstractmethods__", frozenset())) - {"Options"}


def _is_method(base: type, name: str) -> bool:
    member = getattr(base, name)
    return callable(member) or isinstance(member, property)


def test_every_method_has_its_hostile_component() -> None:
    for kind, base in COMPONENT_KINDS.items():
        if kind not in ELSEWHERE:
            assert declared(base) - BY_RUNTIMES == set(CASES[kind]), kind
    assert declared(WaitingQueue) == set(QUEUE) | QUEUE_UNCALLED
    assert declared(WorkerSide) == {"before_step", "after_step", "on_restart"}


# -- Mischief ------------------------------------------------------------------------------


@define
class Mischief:
    """What a hostile method does instead of its work, and what it saw.

    Args:
        act: Called with the component and the arguments; what it raises or returns is the
            method's answer, unless it returns ``SANE_ANSWER``.
        only: The id of the request that it is about; empty: any, or none.
        times: How often.
    """

    act: Any
    only: str = ""
    times: int = 1_000_000
    armed: bool = False
    num_done: int = 0
    scheduler: Any = None
    found: list[str] = field(factory=list)


SANE_ANSWER = object()


def hostile(base: type, method: str, mischief: Mischief) -> type:
    """A class of mine with one method that does mischief."""
    member = getattr(base, method)

    def misbehave(self: Any, *args: Any) -> Any:
        about = next((a.request_id for a in args if isinstance(a, RequestView)), "")
        mine = mischief.only in ("", about)
        if mischief.armed and mine and mischief.num_done < mischief.times:
            mischief.num_done += 1
            answer = mischief.act(self, *args)
            if answer is not SANE_ANSWER:
                return answer
        return member.fget(self) if isinstance(member, property) else member(self, *args)

    misbehave.__code__ = misbehave.__code__.replace(co_name=method)
    changed: Any = property(misbehave) if isinstance(member, property) else misbehave
    return type(base.__name__, (base,), {method: changed})


def scheduler_of(kind: str, cls: type, mischief: Mischief, **scheduler: Any) -> Scheduler:
    """A tight scheduler in which everything happens that can."""
    mischief.armed = kind in ("policy", "feature") and mischief.armed
    config: dict[str, Any] = {
        "scheduler": {
            "max_num_seqs": 3,
            "max_num_batched_tokens": 16,
            "max_policy_preemptions": 2,
            "policy": "mine",
            **scheduler,
        },
        "kv": {"num_blocks": 9, "block_size": 4},
        "gate": [],
    }
    plugins = {"policy": [SanePolicy], kind: [cls]}
    if kind in LISTED:
        config[kind] = [{"use": "mine"}]
    elif kind in ("hasher", "eviction"):
        config["kv"][kind] = "mine"
    elif kind == "kv":
        config["kv"]["manager"] = "mine"
    else:
        config["scheduler"][kind] = "mine"
    made = scheduler_from_config(config, clock=VirtualClock(), plugins=[make_plugin(**plugins)])
    mischief.scheduler = made
    mischief.armed = True
    return made


REQUESTS = [
    ("low", 9, 12, 5),
    ("bad", 6, 12, 4),
    ("mid", 7, 9, 3),
    ("twin", 7, 9, 3),
    ("high", 5, 8, 1),
    ("last", 6, 5, 2),
]


def driver_of(scheduler: Scheduler) -> Driver:
    limits = scheduler.sizes
    executor = ScriptedExecutor.standalone(limits.num_blocks, limits.block_size)
    for feature in scheduler.components.features:
        executor.install(feature.name, feature.worker_side())
    return Driver(scheduler, executor)


def live(scheduler: Scheduler, *, talks: bool = False) -> Driver:
    """Let requests arrive, shrink and grow, preempt, fail; check E1 to E7 on the way."""
    driver = driver_of(scheduler)
    prompt = make_request("x", 7).prompt_token_ids
    for index, (name, size, count, priority) in enumerate(REQUESTS):
        shared = prompt if name in ("mid", "twin") else size
        features = {"mine": "hello"} if talks else {}
        try:
            driver.add(
                make_request(name, shared, count, priority=priority, client="c", features=features)
            )
        except RequestRefusedError as error:
            refused(driver)[name] = str(error)
        for _ in range(1 + index % 2):
            driver.turn()
        if index == 4:
            driver.restart()
    if "low" in scheduler.requests:
        scheduler.reset_prefix_cache()
    driver.executor.errors["last"] = "out of luck"
    driver.finish(max_steps=400)
    scheduler.reset_prefix_cache()
    scheduler.close()
    return driver


def refused(driver: Driver) -> dict[str, str]:
    return driver.__dict__.setdefault("refused", {})  # type: ignore[no-any-return]


def boom(*args: Any) -> Any:
    raise RuntimeError("boom")


def pairs(*ends: str) -> list[Any]:
    """Every kind and method that ends in one of these ways."""
    return [
        pytest.param(kind, method, case, id=f"{kind}.{method}")
        for kind, cases in CASES.items()
        for method, case in cases.items()
        if case.end in ends
    ]


def answers(*ends: str) -> list[Any]:
    """The same with every nonsensical answer."""
    return [
        pytest.param(kind, method, case, answer, id=f"{kind}.{method}-{index}")
        for kind, cases in CASES.items()
        for method, case in cases.items()
        for index, answer in enumerate(case.nonsense)
        if case.end in ends
    ]


def acts_at_start() -> list[Any]:
    """What is asked at the start, raising and with every nonsensical answer."""
    raising = [
        pytest.param(kind, method, boom, id=f"{kind}.{method}-raises")
        for kind, method, _ in (pair.values for pair in pairs("start"))
    ]
    return raising + [
        pytest.param(kind, method, lambda *args, a=answer: a, id=f"{kind}.{method}-{index}")
        for kind, cases in CASES.items()
        for method, case in cases.items()
        for index, answer in enumerate(case.nonsense)
        if case.end == "start"
    ]


def check_request_fault(kind: str, cls: type, mischief: Mischief, named: str, what: str) -> None:
    scheduler = scheduler_of(kind, cls, mischief)
    driver = live(scheduler, talks=kind == "feature")
    assert mischief.num_done > 0
    ends = {r.request_id: r.finish for r in driver.requests}
    assert ends["bad"].reason == "error"
    assert f"{kind} 'mine'" in ends["bad"].detail
    assert f"{named}() {what}" in ends["bad"].detail
    others = [name for name, finish in ends.items() if finish.reason != "length"]
    assert others in (["bad"], ["bad", "last"])  # the executor fails for the last one


@pytest.mark.parametrize(("kind", "method", "case"), pairs("request"))
def test_raising_ends_the_request(kind: str, method: str, case: Case) -> None:
    mischief = Mischief(boom, only="bad")
    cls = hostile(SANE[kind], method, mischief)
    check_request_fault(kind, cls, mischief, method, "raised RuntimeError: boom")


@pytest.mark.parametrize(("kind", "method", "case", "answer"), answers("request"))
def test_nonsense_ends_the_request(kind: str, method: str, case: Case, answer: Any) -> None:
    mischief = Mischief(lambda *args: answer, only="bad")
    cls = hostile(SANE[kind], method, mischief)
    check_request_fault(kind, cls, mischief, method, "")


@pytest.mark.parametrize(("kind", "method", "case"), pairs("refused"))
def test_raising_refuses_the_request(kind: str, method: str, case: Case) -> None:
    check_refusal(kind, method, boom, "raised RuntimeError: boom")


@pytest.mark.parametrize(("kind", "method", "case", "answer"), answers("refused"))
def test_nonsense_refuses_the_request(kind: str, method: str, case: Case, answer: Any) -> None:
    check_refusal(kind, method, lambda *args: answer, "returned")


def check_refusal(kind: str, method: str, act: Any, what: str) -> None:
    mischief = Mischief(act, only="bad")
    scheduler = scheduler_of(kind, hostile(SANE[kind], method, mischief), mischief)
    driver = live(scheduler, talks=kind == "feature")
    assert f"{kind} 'mine'" in refused(driver)["bad"]
    assert f"{method}() {what}" in refused(driver)["bad"]
    assert {r.finish.reason for r in driver.requests if r.request_id != "last"} == {"length"}


def check_step_fault(kind: str, method: str, act: Any, *, wrap: Any = None) -> None:
    """Once: the run goes on, and it is counted. Always: the run ends, naming it."""
    make = wrap or (lambda mischief: hostile(SANE[kind], method.split(".")[-1], mischief))
    once = Mischief(act, times=1)
    scheduler = scheduler_of(kind, make(once), once)
    driver = live(scheduler, talks=kind == "feature")
    assert once.num_done == 1
    counts = {w: n for w, n in scheduler.fault_counts.items() if "'mine'" in w}
    assert next(iter(counts.values())) == 1
    assert f"{kind} 'mine'" in next(iter(counts))
    assert f"{method}()" in next(iter(counts))
    assert {r.finish.reason for r in driver.requests if r.request_id != "last"} == {"length"}
    always = Mischief(act)
    scheduler = scheduler_of(kind, make(always), always, max_component_faults=1)
    with pytest.raises(PluginError, match=rf"{kind} 'mine'.*{method}\(\)"):
        live(scheduler, talks=kind == "feature")


@pytest.mark.parametrize(("kind", "method", "case"), pairs("step"))
def test_raising_costs_a_step(kind: str, method: str, case: Case) -> None:
    def release_and_raise(resource: Any, request: Any) -> None:
        SaneResource.unreserve(resource, request)  # else nobody could have that seat any more
        boom()

    check_step_fault(kind, method, release_and_raise if method == "unreserve" else boom)


@pytest.mark.parametrize(("kind", "method", "case", "answer"), answers("step"))
def test_nonsense_costs_a_step(kind: str, method: str, case: Case, answer: Any) -> None:
    check_step_fault(kind, method, lambda *args: answer)


@pytest.mark.parametrize(("kind", "method", "case"), pairs("run"))
def test_raising_ends_the_run(kind: str, method: str, case: Case) -> None:
    """What keeps the blocks cannot be replaced: PluginError names it."""
    mischief = Mischief(boom)
    scheduler = scheduler_of(kind, hostile(SANE[kind], method, mischief), mischief)
    with pytest.raises(PluginError, match=rf"{kind} 'mine'.*{method}\(\): raised RuntimeError: b"):
        live(scheduler)


@pytest.mark.parametrize(("kind", "method", "case", "answer"), answers("run"))
def test_nonsense_ends_the_run(kind: str, method: str, case: Case, answer: Any) -> None:
    mischief = Mischief(lambda *args: answer)
    scheduler = scheduler_of(kind, hostile(SANE[kind], method, mischief), mischief)
    with pytest.raises(PluginError, match=rf"{kind} 'mine'.*{method}\(\): returned"):
        live(scheduler)


@pytest.mark.parametrize(("kind", "method", "act"), acts_at_start())
def test_failing_at_start(kind: str, method: str, act: Any) -> None:
    mischief = Mischief(act, armed=True)
    cls = hostile(SANE[kind], method, mischief)
    if method == "setup":
        cls = type("Cls", (cls,), {"setup": boom})
    if method == "worker_side":
        with pytest.raises(PluginError, match=r"feature 'mine'.*worker_side\(\): failed: Runtime"):
            engine_of(cls)
        return
    where = r"__init__" if method == "make_queue" else rf"{method}\(\)"
    with pytest.raises(PluginError, match=rf"{kind} 'mine'.*{where}"):
        scheduler_of(kind, cls, mischief)


def engine_of(cls: type) -> Any:
    from batchwright.config import Config
    from batchwright.plugin_manager import PluginManager
    from batchwright.testing import fakes
    from batchwright_engine.assembly import EngineAssembly

    config = {
        "model": {"path": "none"},
        "executor": {"use": "scripted"},
        "feature": [{"use": "mine"}],
        "kv": {"num_blocks": 20, "block_size": 4},
    }
    plugins = PluginManager.discover((), (), extra=(fakes, make_plugin(feature=[cls])))
    return EngineAssembly(Config.from_dict(config), plugins=plugins, clock=VirtualClock()).engine()


@pytest.mark.parametrize(("kind", "method", "case"), pairs("disabled"))
def test_an_observer_is_disabled(kind: str, method: str, case: Case) -> None:
    for act in (boom, lambda *args: (_ for _ in ()).throw(PluginError("mine"))):
        mischief = Mischief(lambda *args, act=act: act())
        scheduler = scheduler_of(kind, hostile(SANE[kind], method, mischief), mischief)
        live(scheduler)
        assert mischief.num_done == 1
        assert list(scheduler.fault_counts.values()) == [1]


@pytest.mark.parametrize(("kind", "method", "case"), pairs("logged"))
def test_failing_where_nothing_depends_on_it(kind: str, method: str, case: Case) -> None:
    asked = (("kv", "audit"), ("kv", "num_usable_blocks"), ("kv", "published_blocks"))
    if (kind, method) in (*asked, ("eviction", "__iter__")):
        pytest.skip("the driver's own checks ask for it")
    mischief = Mischief(boom)
    live(scheduler_of(kind, hostile(SANE[kind], method, mischief), mischief))


# -- Queues of one's own -------------------------------------------------------------------


def queue_policy(method: str, mischief: Mischief) -> type:
    queue = hostile(KeyedQueue, method, mischief)

    def make_queue(self: Any) -> Any:
        return queue(self.key)

    return type("MyPolicy", (SanePolicy,), {"make_queue": make_queue})


def test_a_queue_that_cannot_say_who_is_next_costs_a_step() -> None:
    check_step_fault("policy", "peek", boom, wrap=lambda mischief: queue_policy("peek", mischief))


@pytest.mark.parametrize("answer", QUEUE["peek"].nonsense)
def test_a_queue_that_names_nobody_costs_a_step(answer: Any) -> None:
    def wrap(mischief: Mischief) -> type:
        return queue_policy("peek", mischief)

    check_step_fault("policy", "peek", lambda *args: answer, wrap=wrap)


def test_a_queue_that_cannot_insert_ends_the_request() -> None:
    mischief = Mischief(boom, only="bad")
    policy = queue_policy("insert", mischief)
    check_request_fault("policy", policy, mischief, "key", "raised RuntimeError: boom")


@pytest.mark.parametrize("method", [m for m, case in QUEUE.items() if case.end == "run"])
def test_a_queue_that_loses_requests_ends_the_run(method: str) -> None:
    mischief = Mischief(boom, only="bad")
    policy = queue_policy(method, mischief)

    class HoldBack(SaneGate):
        def pre_filter(self, request: Any, view: Any) -> Any:
            return Defer() if request.request_id == "good" and view.step_id < 2 else ADMIT

    mischief.only = "" if method == "forget" else "good"
    scheduler = scheduler_from_config(
        {"scheduler": {"policy": "mine"}, "gate": [{"use": "mine"}], "kv": {"num_blocks": 20}},
        clock=VirtualClock(),
        plugins=[make_plugin(policy=[policy], gate=[HoldBack])],
    )
    mischief.armed = True
    driver = Driver(scheduler)
    driver.add(make_request("good", 4, 4))
    with pytest.raises(
        PluginError,
        match=r"policy 'mine'.*raised RuntimeError: boom \(test_hostile\.py:\d+\); what it",
    ):
        driver.finish()


def test_a_queue_that_names_who_is_not_queued() -> None:
    """A parked request, or one that runs, is not admitted because a queue says so."""
    mischief = Mischief(lambda queue: mischief.scheduler.requests["bad"].view, times=2)
    policy = queue_policy("peek", mischief)

    class ParkBad(SaneGate):
        def pre_filter(self, request: Any, view: Any) -> Any:
            waits = request.request_id == "bad" and not self.__dict__.get("opened")
            return Defer(until="door") if waits else ADMIT

    plugins = [make_plugin(policy=[policy], gate=[ParkBad])]
    scheduler = scheduler_from_config(
        {"scheduler": {"policy": "mine"}, "gate": [{"use": "mine"}], "kv": {"num_blocks": 20}},
        clock=VirtualClock(),
        plugins=plugins,
    )
    mischief.scheduler = scheduler
    driver = Driver(scheduler)
    driver.add(make_request("bad", 4, 4))
    driver.turn()
    mischief.armed = True
    driver.add(make_request("a", 4, 4), make_request("b", 4, 4))
    driver.turn()
    assert mischief.num_done == 2
    assert driver.recorder.grants[-1] == {"a": 4, "b": 4}
    scheduler.components.gates[0].opened = True
    scheduler.signal("door")
    driver.finish()


# -- Keys that change, answers that are not lists ------------------------------------------


def test_an_unstable_key_orders_somehow() -> None:
    class Unstable(SanePolicy):
        def key(self, request: Any) -> Any:
            return self.ctx.random.random()

        running_key = key

    mischief = Mischief(boom)
    driver = live(scheduler_of("policy", Unstable, mischief))
    assert len(driver.recorder.finished) == len(REQUESTS)


def test_yield_running_may_be_a_generator(make_bench: Any) -> None:
    """The check used it up, and nobody yielded."""

    class Yields(SchedulingPolicy):
        name = "yields"

        def running_to_preempt(self, view: Any) -> Any:
            for request in view.running:
                yield Preempt(request, keep_blocks=True)

    b = make_bench(plugins=[make_plugin(policy=[Yields])], policy="yields", max_num_seqs=1)
    b.add("a", 4, 9)
    b.step()
    b.add("b", 4, 9)
    assert b.step() == {"b": 4}


def test_estimates_may_be_an_array(make_bench: Any) -> None:
    numpy = pytest.importorskip("numpy")

    class Arrays(Predictor):
        name = "arrays"

        def output_tokens(self, requests: Any) -> Any:
            return numpy.array([2.0] * len(requests))

    b = make_bench(plugins=[make_plugin(predictor=[Arrays])], predictor="arrays")
    views = [b.add(name, 4, 7).view for name in "ab"]
    assert b.scheduler.components.policy.ctx.predict(*views) == [2.0, 2.0]
    b.drain()


def test_who_ends_the_run_is_named_through_others(make_bench: Any) -> None:
    """A predictor that fails within a policy's key is not taken for the policy's fault."""

    class Bad(Predictor):
        name = "bad"

        def output_tokens(self, requests: Any) -> Any:
            raise RuntimeError("boom")

    class Asks(SchedulingPolicy):
        name = "asks"

        def key(self, request: Any) -> Any:
            return self.ctx.predict(request)[0]

    plugin = make_plugin(policy=[Asks], predictor=[Bad])
    b = make_bench(plugins=[plugin], policy="asks", predictor="bad")
    b.add("a", 4, 2)
    b.add("b", 4, 2)
    with pytest.raises(PluginError, match=r"predictor 'bad'.*output_tokens\(\)"):
        b.add("c", 4, 2)


# -- Changing what is not one's own, reentering, being slow --------------------------------

CALLED = [p for p in pairs("request", "refused", "step", "disabled", "run") if p.id != "kv.on_add"]


def check_harmless(kind: str, method: str, mischief: Mischief, **scheduler: Any) -> Scheduler:
    made = scheduler_of(kind, hostile(SANE[kind], method, mischief), mischief, **scheduler)
    driver = live(made, talks=kind == "feature")
    assert mischief.num_done > 0
    assert mischief.found == []
    assert {r.finish.reason for r in driver.requests if r.request_id != "last"} == {"length"}
    return made


@pytest.mark.parametrize(("kind", "method", "case"), CALLED)
def test_what_is_shown_cannot_be_changed(kind: str, method: str, case: Case) -> None:
    def change(component: Any, *args: Any) -> Any:
        for shown in (*args, component.ctx.view):
            if isinstance(shown, RequestView | SchedulerView | PrefixHit):
                for name in (n for n in dir(type(shown)) if not n.startswith("_")):
                    try:
                        setattr(shown, name, 1)
                    except AttributeError:
                        continue
                    mischief.found.append(f"{type(shown).__name__}.{name}")
        return SANE_ANSWER

    mischief = Mischief(change)
    check_harmless(kind, method, mischief)


@pytest.mark.parametrize(("kind", "method", "case"), CALLED)
def test_the_scheduler_cannot_be_reentered(kind: str, method: str, case: Case) -> None:
    def reenter(component: Any, *args: Any) -> Any:
        scheduler = mischief.scheduler
        if not scheduler._turns.doing:
            return SANE_ANSWER  # the driver asks for its own checks
        for call in (
            lambda: scheduler.add_request(make_request("new", 4, 2)),
            scheduler.schedule,
            lambda: scheduler.update_from_output(None, None),
            scheduler.recover,
            scheduler.reset_prefix_cache,
        ):
            try:
                call()
            except StepError:
                continue
            mischief.found.append(str(call))
        component.ctx.signal("nobody")
        scheduler.signal("nobody")
        return SANE_ANSWER

    mischief = Mischief(reenter)
    check_harmless(kind, method, mischief)


@pytest.mark.parametrize(
    ("kind", "method", "case"),
    [p for p in CALLED if p.values[0] not in ("kv", "hasher", "eviction")],
)
def test_slow_calls_are_reported(kind: str, method: str, case: Case, caplog: Any) -> None:
    logging.getLogger("batchwright").setLevel(logging.WARNING)

    def dawdle(component: Any, *args: Any) -> Any:
        component.ctx.clock.advance(2.0)
        return SANE_ANSWER

    made = check_harmless(kind, method, Mischief(dawdle, times=2), slow_component_seconds=1.5)
    # (Who calls it through ``ctx`` is slow as well.)
    (seconds,) = (s for w, s in made.slow_calls.items() if f"{kind} 'mine'" in w and method in w)
    assert seconds == 2.0
    told = [r.message for r in caplog.records if "slow_component_seconds" in r.message]
    assert len([text for text in told if f"{method}() took 2 s" in text]) == 1


def test_calls_are_not_timed_unless_asked() -> None:
    """No look at the clock for a call."""
    looks = {}
    for slow in (None, 5.0):
        scheduler = scheduler_of(
            "limit", SaneLimit, Mischief(boom), **({"slow_component_seconds": slow} if slow else {})
        )
        clock, looks[slow] = scheduler.clock, 0

        class Counting(VirtualClock):
            def now(self, slow: Any = slow) -> float:
                looks[slow] += 1
                return super().now()

        clock.__class__ = Counting
        live(scheduler)
    assert looks[5.0] > looks[None] + 100


def test_errors_of_ours_pass_as_they_are() -> None:
    """A KV manager that says what is wrong with the configuration is not reworded."""

    class Refuses(MyKV):
        def lookup(self, request: Any) -> Any:
            raise BatchwrightError("as it is")

    scheduler = scheduler_of("kv", Refuses, Mischief(boom))
    scheduler.add_request(make_request("a", 4, 2))
    with pytest.raises(BatchwrightError, match=r"^as it is$"):
        scheduler.schedule()
