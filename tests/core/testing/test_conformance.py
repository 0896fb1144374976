"""Conformance classes pass what keeps the contract and catch what breaks it."""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, frozen

from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.protocols import (
    Arrival,
    Caps,
    Command,
    Control,
    Estimator,
    Eviction,
    Feature,
    FeatureComponent,
    Gate,
    Hasher,
    Limit,
    Observer,
    Predictor,
    Preemption,
    Resource,
    SchedulingPolicy,
    Victim,
    WorkerSide,
    Workload,
)
from batchwright.queues import WindowQueue
from batchwright.scheduler import Scheduler, StepScheduler
from batchwright.testing.conformance import CONFORMANCE, Conformance, conformance_for
from batchwright.testing.executor import ScriptedExecutor
from batchwright.testing.spy import Spy, overridden_methods
from batchwright.verdicts import ADMIT, Defer, Stop
from batchwright_engine.attention.torch_paged import TorchAttention
from batchwright_plugins.kv.paged import PagedKV


def checks(suite: type[Conformance]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every test of a class, with each of its parameters."""
    for name in dir(suite):
        if not name.startswith("test_"):
            continue
        marks = getattr(getattr(suite, name), "pytestmark", ())
        cases = [mark.args for mark in marks if mark.name == "parametrize"]
        for argument, values in cases or [("", [None])]:
            for value in values:
                yield name, {argument: value} if argument else {}


def failures(suite: type[Conformance]) -> list[str]:
    """Names of the tests that fail."""
    found = []
    for name, arguments in checks(suite):
        try:
            getattr(suite(), name)(**arguments)
        except Exception:
            found.append(name)
    return list(dict.fromkeys(found))


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# -- Components that keep their contracts ----------------------------------------------


class Window(SchedulingPolicy):
    """The longest prompt of the first eight."""

    name = "window"

    def make_queue(self):
        return WindowQueue(attrgetter("num_prompt_tokens"), 8)


class TwoSlots(Resource):
    """Two seats for clients; who finds none waits until one is free."""

    name = "two-slots"

    def setup(self) -> None:
        self.held: dict[str | None, int] = {}

    def reserve(self, request):
        if request.client not in self.held and len(self.held) == 2:
            return False
        self.held[request.client] = self.held.get(request.client, 0) + 1
        return True

    def unreserve(self, request):
        self.held[request.client] -= 1
        if not self.held[request.client]:
            del self.held[request.client]
            self.ctx.signal("slot")

    def waits_for(self, request):
        return "slot"


class HalfSteps(Control):
    """A gate that halves the budget while any request waits."""

    name = "half-steps"

    def caps(self, view):
        return Caps(num_tokens=self.ctx.sizes.max_num_batched_tokens // 2)


class Counted(WorkerSide):
    def after_step(self, plan, output):
        return plan.total_num_scheduled_tokens


class Echo(Feature):
    """Hears how many tokens were computed, and bounds grants."""

    name = "echo"

    def setup(self) -> None:
        self.num_heard = 0

    def components(self):
        return [FeatureComponent(Eight)]

    def worker_side(self):
        return Counted()

    def check(self, request, data):
        return None if data == "hello" else "say hello"

    def build_metadata(self, plan):
        return "hello"

    def update_from_worker(self, extra):
        self.num_heard += extra


class Eight(Limit):
    """Eight tokens at most."""

    name = "eight"

    def max_tokens(self, request, num_tokens, view):
        return min(num_tokens, 8)


@pytest.mark.parametrize(
    ("kind", "component", "attributes"),
    [
        ("policy", Window, {}),
        ("resource", TwoSlots, {}),
        ("control", HalfSteps, {}),
        ("feature", Echo, {"says": "hello"}),
        ("limit", Eight, {}),
    ],
)
def test_good_component_passes(kind: str, component: type, attributes: dict[str, Any]) -> None:
    assert failures(conformance_for(kind, component, **attributes)) == []


def test_halves_of_features_are_heard() -> None:
    suite = conformance_for("feature", Echo, says="hello")()
    scheduler = suite.scheduler()
    driver = suite.serve(scheduler, suite.arrivals())
    assert driver.executor.has_worker_sides
    granted = sum(plan["total_num_scheduled_tokens"] for plan in driver.recorder.plans)
    assert scheduler.components.features[0].num_heard == granted


# -- Components that break them ----------------------------------------------------------


class Unstable(SchedulingPolicy):
    """Draws a key each time that it is asked."""

    name = "unstable"

    def key(self, request):
        return self.ctx.random.random()


class Ages(SchedulingPolicy):
    """A key of the current time, without a call of rekey."""

    name = "ages"

    def key(self, request):
        return self.ctx.clock.now()


class Wild(SchedulingPolicy):
    """Other decisions in every run."""

    name = "wild"

    @define
    class Data:
        key: float = 0.0

    def key(self, request):
        data = self.ctx.data(request)
        data.key = data.key or random.random()
        return data.key


class NeedsClient(SchedulingPolicy):
    """Falls over a request without a client."""

    name = "needs-client"

    def key(self, request):
        return len(request.client)


class Rekeys(SchedulingPolicy):
    """Asks for all keys in every step."""

    name = "rekeys"

    def running_to_preempt(self, view):
        return ()

    def running_key(self, request):
        return 0

    def key(self, request):
        return 0

    def on_tokens(self, request, payload):
        for waiting in list(self.queue):
            self.queue.rekey(waiting)
        self.ctx.call_at_tokens(request, num_computed_tokens=request.num_computed_tokens + 1)

    def on_admit(self, request, hit, need):
        self.ctx.call_at_tokens(request, num_computed_tokens=request.num_computed_tokens + 1)


class Quarrels(SchedulingPolicy):
    """Any request may take the place of any other."""

    name = "quarrels"

    def preempts(self, waiting, running):
        return True


class Loses(SchedulingPolicy):
    """Forgets who was preempted."""

    name = "loses"

    def requeue(self, request):
        pass


class Mute(SchedulingPolicy):
    name = "mute"


@frozen
class Undocumented:
    """Options."""

    weight: float = 1.0


class Unsaid(SchedulingPolicy):
    """Has an option without a sentence."""

    name = "unsaid"
    Options = Undocumented


class Closed(Gate):
    """Never opens."""

    name = "closed"

    def pre_filter(self, request, view):
        return Stop("closed")


class Unreasonable(Gate):
    """Gives no reason."""

    name = "unreasonable"

    def pre_filter(self, request, view):
        return ADMIT if not view.num_running else Defer()


class Asks(Gate):
    """Answers yes and no."""

    name = "asks"

    def pre_filter(self, request, view):
        return True


class Zero(Control):
    """Lets nothing through."""

    name = "zero"

    def caps(self, view):
        return Caps(num_tokens=0)


class Halves(Control):
    """Half a token."""

    name = "halves"

    def caps(self, view):
        return Caps(num_tokens=1.5)


class Generous(Limit):
    """More than was asked for."""

    name = "generous"

    def max_tokens(self, request, num_tokens, view):
        return num_tokens + 1


class Stingy(Limit):
    """Would cut decodes, and does not say so."""

    name = "stingy"

    def max_tokens(self, request, num_tokens, view):
        return num_tokens // 2 if num_tokens > 1 else 0


class Leaks(Resource):
    """Takes before it knows whether there is enough."""

    name = "leaks"

    def setup(self) -> None:
        self.num_free = 6

    def reserve(self, request):
        self.num_free -= 1
        return self.num_free >= 0

    def unreserve(self, request):
        self.num_free += 1


class Stranger(Victim):
    """A victim plugin that names no request."""

    name = "stranger"

    def choose(self, running, needy, view):
        return None


class Boasts(Preemption):
    """Keeps more than there was."""

    name = "boasts"

    def keep(self, request, block_ids):
        return 10**9


class Pessimist(Predictor):
    """Negative lengths."""

    name = "pessimist"

    def output_tokens(self, requests):
        return [-1.0 for _ in requests]


class Compares(Predictor):
    """Depends on who is asked about beside."""

    name = "compares"

    def output_tokens(self, requests):
        return [float(len(requests)) for _ in requests]


class Overcommits(PagedKV):
    """Hands out a block too many."""

    name = "overcommits"

    def num_needed(self, request, num_tokens, hit=None):
        return 0


class Touches(PagedKV):
    """Looking takes a block."""

    name = "touches"

    def lookup(self, request):
        if len(self._free) > 1:
            self._free.take()
        return super().lookup(request)


class Short(Hasher):
    """Eight bytes."""

    name = "short"
    digest_size = 8

    def digest(self, data):
        return sha256(data).digest()[:8]


class Salted(Hasher):
    """Another one in every process."""

    name = "salted"
    digest_size = 32

    def digest(self, data):
        return sha256(data + str(hash("salt")).encode()).digest()


class LastFirst(Eviction):
    """Shows another order than it takes."""

    name = "last-first"

    def __init__(self, options, ctx):
        super().__init__(options, ctx)
        self.free = OrderedDict()

    def __len__(self):
        return len(self.free)

    def __iter__(self):
        return iter(self.free)

    def add_empty(self, block_ids):
        self.free.update(dict.fromkeys(block_ids))

    add_cached = add_empty

    def take(self):
        return self.free.popitem()[0]

    def remove(self, block_id):
        del self.free[block_id]


class Forgetful(ScriptedExecutor):
    """Goes on with old memory after a restart."""

    name = "forgetful"

    def load(self, settings):
        self.salt = time.perf_counter_ns()
        return super().load(settings)

    def execute(self, plan):
        output = super().execute(plan)
        for row in output.sampled_token_ids:
            row[:] = [(token + plan.step_id) % 997 for token in row]
        return output


class Fragile(ScriptedExecutor):
    """Fails the whole step over one request."""

    name = "fragile"

    def run(self, plan):
        for request in plan.scheduled_new_reqs:
            self.add_request(request)
        return self.execute(plan)


class Stumbles(Observer):
    """Falls over its second step."""

    name = "stumbles"

    def on_step(self, record):
        raise LookupError("no")


class Rich(Observer):
    """Sums up in objects."""

    name = "rich"

    def summary(self):
        return {"me": self}


class Whole(Feature):
    """Brings a policy along, and raises about odd data."""

    name = "whole"

    def check(self, request, data):
        return data["key"]


class Uncapped(TorchAttention):
    """Forgets the soft cap."""

    name = "uncapped"

    def forward(self, call):
        return super().forward(evolve(call, softcap=None))


class Silent(Command):
    """Says nothing."""

    name = "silent"

    def build(self):
        import click

        return click.Command("silent")


class Uneven(Estimator):
    """Takes another time whenever it is asked."""

    name = "uneven"
    count = 0

    def step_time(self, shape):
        self.count += 1
        return float(self.count)


class Shrinks(Estimator):
    """Takes less time for more tokens."""

    name = "shrinks"

    def step_time(self, shape):
        return 1 / (1 + shape.num_tokens)


class Hopes(Estimator):
    """Promises more tokens than there is time for."""

    name = "hopes"

    def step_time(self, shape):
        return 1.0 + shape.num_tokens

    def max_tokens(self, deadline, shape, context=0):
        return 10 * super().max_tokens(deadline, shape, context)


class Drifts(Estimator):
    """Times of decodes in a row that are not those of each."""

    name = "drifts"

    def step_time(self, shape):
        return 1.0 + shape.decode_context

    def decode_times(self, num_decodes, context):
        return (1.0 + context for _ in iter(int, 1))


class Backwards(Workload):
    """The last one first."""

    name = "backwards"
    max_output_tokens = 1

    def arrivals(self):
        for moment in (2.0, 1.0):
            yield Arrival(time=moment, prompt_token_ids=[1], num_output_tokens=1)


class Empty(Workload):
    """Asks for nothing."""

    name = "empty"
    max_output_tokens = 1

    def arrivals(self):
        yield Arrival(time=0.0, prompt_token_ids=[], num_output_tokens=1)


class Fresh(Workload):
    """Another workload at every reading."""

    name = "fresh"
    max_output_tokens = 9

    def arrivals(self):
        yield Arrival(time=self.ctx.random.random(), prompt_token_ids=[1], num_output_tokens=1)


class Idle(StepScheduler):
    """Plans nothing."""

    name = "idle"

    def plan(self, step):
        pass


class Eager(StepScheduler):
    """Admits what waits, and never serves it again."""

    name = "eager"

    def plan(self, step):
        while step.admit():
            pass


class Overspends(Scheduler):
    """Plans a token more than it has."""

    name = "overspends"

    def schedule(self):
        plan = super().schedule()
        plan.num_scheduled_tokens |= {name: 1 + n for name, n in plan.num_scheduled_tokens.items()}
        return plan


class Deaf(Scheduler):
    """Goes on with requests that are aborted, and admits while it is paused."""

    name = "deaf"

    def abort(self, request_ids):
        pass

    def pause(self):
        pass


BAD: list[tuple[str, type, str]] = [
    ("scheduler", Idle, "test_every_request_ends_once_with_its_own_answer"),
    ("scheduler", Eager, "test_odd_requests_are_served"),
    ("scheduler", Overspends, "test_a_full_pool_is_survived"),
    ("scheduler", Deaf, "test_aborts_end_requests_at_once"),
    ("scheduler", Deaf, "test_pausing_admits_none"),
    ("policy", Unstable, "test_keys_are_numbers_and_stable"),
    ("policy", Ages, "test_keys_stay_while_requests_wait"),
    ("policy", Wild, "test_same_seed_decides_the_same"),
    ("policy", NeedsClient, "test_odd_requests_are_served"),
    ("policy", Rekeys, "test_steps_cost_nothing_for_requests_that_wait"),
    ("policy", Quarrels, "test_displacing_goes_one_way"),
    ("policy", Loses, "test_requeue_puts_a_request_back_once"),
    ("policy", Mute, "test_docstring_says_what_it_is"),
    ("policy", Unsaid, "test_options_are_documented"),
    ("gate", Closed, "test_request_that_is_alone_is_served"),
    ("gate", Unreasonable, "test_answers_are_verdicts_with_reasons"),
    ("gate", Asks, "test_every_request_ends_once_with_its_own_answer"),
    ("control", Zero, "test_request_that_is_alone_is_served"),
    ("control", Halves, "test_caps_are_counts"),
    ("limit", Generous, "test_answers_are_grants"),
    ("limit", Stingy, "test_decodes_are_left_alone_unless_it_says_otherwise"),
    ("resource", Leaks, "test_reserve_that_fails_takes_nothing"),
    ("victim", Stranger, "test_a_running_request_is_named"),
    ("preemption", Boasts, "test_no_tokens_are_kept"),
    ("predictor", Pessimist, "test_estimates_are_finite_counts"),
    ("predictor", Compares, "test_batch_answers_what_single_requests_do"),
    ("estimator", Uneven, "test_times_are_finite_and_pass"),
    ("estimator", Shrinks, "test_more_work_takes_no_less_time"),
    ("estimator", Hopes, "test_most_tokens_are_in_time"),
    ("estimator", Drifts, "test_decodes_in_a_row_take_the_same_times"),
    ("workload", Backwards, "test_arrivals_are_in_order"),
    ("workload", Empty, "test_arrivals_can_be_served"),
    ("workload", Fresh, "test_same_seed_arrives_the_same"),
    ("kv", Overcommits, "test_allocation_is_a_transaction"),
    ("kv", Touches, "test_looking_changes_nothing"),
    ("hasher", Short, "test_digests_have_their_size"),
    ("hasher", Salted, "test_digests_are_the_same_in_every_process"),
    ("eviction", LastFirst, "test_blocks_are_free_once"),
    ("executor", Forgetful, "test_answers_do_not_depend_on_the_plan"),
    ("executor", Fragile, "test_request_that_cannot_be_taken_up_ends_alone"),
    ("attention", Uncapped, "test_outputs_equal_dense_attention"),
    ("observer", Stumbles, "test_every_request_ends_once_with_its_own_answer"),
    ("observer", Rich, "test_summary_is_plain"),
    ("feature", Whole, "test_check_answers_whatever_it_is_told"),
    ("command", Silent, "test_help_is_one_line"),
]


@pytest.mark.parametrize(("kind", "component", "test"), BAD, ids=lambda v: getattr(v, "name", None))
def test_bad_component_is_caught(kind: str, component: type, test: str) -> None:
    suite = conformance_for(kind, component)
    caught = []
    for name, arguments in checks(suite):
        if name == test:
            try:
                getattr(suite(), name)(**arguments)
            except Exception as error:
                caught.append(error)
    assert caught, f"{test} passes"


@pytest.mark.parametrize("kind", sorted(COMPONENT_KINDS))
def test_every_kind_has_a_bad_component(kind: str) -> None:
    assert [case for case in BAD if case[0] == kind]


@pytest.mark.parametrize("kind", sorted(COMPONENT_KINDS))
def test_tests_of_conformance_have_sentences(kind: str) -> None:
    """Every kind's class says what it checks."""
    assert CONFORMANCE[kind].__doc__


def test_spy_sees_only_what_is_overridden() -> None:
    assert list(overridden_methods("policy", Unstable)) == ["key"]
    spy = Spy()
    watched = spy.watch("limit", Eight)
    assert watched is not Eight
    assert watched.name == "eight"
