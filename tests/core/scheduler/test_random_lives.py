"""Lives of a scheduler drawn from seeds: longer and rougher than hypothesis draws them."""

import contextlib
import logging
import random

import pytest
from attrs import evolve

from batchwright.clock import VirtualClock
from batchwright.config import Config
from batchwright.exceptions import InvariantError, RequestRefusedError, StepError
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Caps, Control, Gate, Limit, Observer, Resource
from batchwright.scheduler.failures import Failures
from batchwright.scheduler.policy_preemption import PolicyPreemption
from batchwright.testing import Driver, ScriptedExecutor, fakes, make_plugin
from batchwright.testing.strategies import RequestPlan
from batchwright_lab.simulation.assembly import SimulatorAssembly
from batchwright_plugins.kv.paged import PagedKV
from batchwright_plugins.policy.priority import Priority
from batchwright_plugins.preemption.recompute import Recompute
from batchwright_plugins.victim.lifo import Lifo


def chaotic(base, *methods):
    """A class of mine whose methods now and then raise, answer nonsense or call back."""

    def wrap(name):
        plain = getattr(base, name)

        def misbehave(self, *args):
            chance = self.ctx.random.random()
            if chance < 0.01:
                raise RuntimeError("boom")
            if chance < 0.02:
                return self.ctx.random.choice([None, "x", -1, 0.5, float("nan"), [None], object()])
            if chance < 0.03:
                for call in (SCHEDULERS[-1].schedule, SCHEDULERS[-1].recover):
                    with contextlib.suppress(StepError):
                        call()
                        raise AssertionError("it reentered")
                if SCHEDULERS[-1]._turns.doing != "schedule()":
                    # (Else it ends right behind the plan, which the driver's check of the
                    # plan cannot know.)
                    SCHEDULERS[-1].abort(f"r{self.ctx.random.randint(0, 20)}")
                self.ctx.signal("x")
            return plain(self, *args)

        return misbehave

    return type(
        f"Chaotic{base.__name__}", (base,), {"name": "chaos", **{m: wrap(m) for m in methods}}
    )


class Passive(Limit):
    def max_tokens(self, request, num_tokens, view):
        return num_tokens


class Seats(Resource):
    def reserve(self, request):
        return True

    def unreserve(self, request):
        pass


class Moody(Control):
    """Lets few decode, or nobody, now and then."""

    name = "moody"

    def caps(self, view):
        return Caps(num_decode_tokens=self.ctx.random.choice([None, None, 0, 0, 1, 3]))


EVENTS = ("on_add", "on_admit", "on_preempt", "on_finish")
SCHEDULERS = []
CHAOS = make_plugin(
    policy=[
        chaotic(
            Priority, "key", "requeue", "running_key", "running_to_preempt", "preempts", *EVENTS
        )
    ],
    gate=[chaotic(Gate, "pre_enqueue", "open", "pre_filter", "filter", *EVENTS)],
    control=[chaotic(Control, "caps", *EVENTS)],
    limit=[chaotic(Passive, "max_tokens", *EVENTS)],
    resource=[chaotic(Seats, "never", "reserve", "unreserve", "waits_for", *EVENTS)],
    victim=[chaotic(Lifo, "choose", *EVENTS)],
    preemption=[chaotic(Recompute, "keep", *EVENTS)],
    observer=[chaotic(Observer, "on_step", "on_outputs", *EVENTS)],
)
PLUGINS = PluginManager.discover((), (), extra=(fakes, CHAOS, make_plugin(control=[Moody])))


def add_chaos(config):
    """Put a hostile component of every kind into a configuration."""
    config["scheduler"].update(
        policy="chaos", victim="chaos", preemption="chaos", max_component_faults=1_000_000
    )
    for kind in ("gate", "control", "limit", "resource", "observer"):
        config.setdefault(kind, []).append({"use": "chaos"})


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("batchwright").setLevel(logging.ERROR)
    yield
    logging.getLogger("batchwright").setLevel(logging.NOTSET)


def draw_scheduler(draw, max_depth):
    depth = draw.randint(1, max_depth)
    lookahead = draw.choice([0, 0, 0, 1, 3]) if depth == 1 else 0
    max_num_seqs = draw.randint(1, 8)
    least = max_num_seqs * max(1, lookahead)
    return {
        "policy": draw.choice(["fcfs", "priority"]),
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": draw.choice([least + 1, draw.randint(least, 60)]),
        "enable_chunked_prefill": draw.random() < 0.8,
        "pipeline_depth": depth,
        "num_lookahead_tokens": lookahead,
        "backfill": draw.choice([0, 0, 1, 2]),
        "scan_window": draw.choice([1, 2, 64]),
    }


def contend(draw, scheduler, kv, limits, model):
    """Few seats, long prompts in short chunks, a budget for several of them."""
    scheduler.update(
        policy="priority", max_num_seqs=draw.randint(2, 3), enable_chunked_prefill=True
    )
    scheduler["max_num_batched_tokens"] = draw.randint(30, 90)
    kv.update(block_size=draw.randint(1, 4), num_blocks=draw.randint(60, 120))
    limits[:] = [{"use": "long-prefill", "threshold": draw.randint(4, 9)}]
    model["max_model_len"] = draw.randint(60, 80)


def draw_config(draw, max_depth):
    scheduler = draw_scheduler(draw, max_depth)
    shortest = scheduler["pipeline_depth"] * (1 + scheduler["num_lookahead_tokens"]) + 1
    max_model_len = draw.randint(shortest, 80)
    if not scheduler["enable_chunked_prefill"]:
        scheduler["max_num_batched_tokens"] = max(
            scheduler["max_num_batched_tokens"], max_model_len
        )
    gates = [{"use": "hint"}]
    if draw.random() < 0.6:
        gates.append({"use": "full-need"})
    if draw.random() < 0.4:
        gates.append({"use": "watermark", "fraction": draw.choice([0.05, 0.1, 0.3])})
    limits = []
    if draw.random() < 0.4:
        limits.append({"use": "long-prefill", "threshold": draw.randint(1, max_model_len)})
    kv = {
        "block_size": draw.randint(1, 8),
        "num_blocks": draw.randint(2, 30),
        "enable_prefix_caching": draw.random() < 0.7,
    }
    model = {"max_model_len": max_model_len}
    if draw.random() < 0.3:
        contend(draw, scheduler, kv, limits, model)
    controls = [{"use": "moody"}] if kv["num_blocks"] % 3 == 0 else []
    return {
        "scheduler": scheduler,
        "policy": {"priority": {"preempts": scheduler["policy"] == "priority"}},
        "model": model,
        "kv": kv,
        "gate": gates,
        "limit": limits,
        "control": controls,
    }


def draw_request(draw):
    chance, hints = draw.random(), {}
    if chance < 0.1:
        hints = {draw.choice(["park", "skip"]): draw.choice("xy")}
    elif chance < 0.2:
        hints = {draw.choice(["hold", "stop"]): draw.randint(1, 4)}
    num_shared = draw.randint(0, 30)
    return RequestPlan(
        family=draw.randint(0, 2),
        num_shared=num_shared,
        num_own=draw.randint(0 if num_shared else 1, 14),
        max_tokens=draw.randint(1, 30),
        ignore_eos=draw.random() < 0.5,
        priority=draw.randint(0, 3),
        hints=hints,
    )


class Life:
    """One scheduler, from its configuration to its last request."""

    def __init__(self, seed, *, max_depth=3, visit_everyone=False, hostile=False):
        self.draw = draw = random.Random(seed)
        config = draw_config(draw, max_depth)
        if visit_everyone:
            config["limit"].append({"use": "visit-everyone"})
        if hostile:
            add_chaos(config)
        depth, kv = config["scheduler"]["pipeline_depth"], config["kv"]
        executor = ScriptedExecutor.standalone(
            kv["num_blocks"],
            kv["block_size"],
            vocab_size=23,
            eos_one_in=12,
            num_draft_tokens=draw.choice([0, 0, 1, 3]),
        )
        assembly = SimulatorAssembly(
            Config.from_dict(config), plugins=PLUGINS, clock=VirtualClock()
        )
        self.driver = Driver(assembly.scheduler(), executor, depth=depth)
        self.scheduler = self.driver.scheduler
        SCHEDULERS[:] = [self.scheduler]
        self.gate = self.scheduler.components.gates[0]
        self.num_added = self.num_bursts = 0

    def live(self):
        deeds = [self.add, self.burst, self.turns, self.step, self.abort, self.notice, self.upset]
        for _ in range(self.draw.randint(5, 100)):
            (deed,) = self.draw.choices(deeds, weights=[20, 6, 35, 22, 8, 6, 6])
            deed()
        for key in "xy":
            self.scheduler.signal(key)
            self.gate.let_pass(key)
        self.driver.finish(max_steps=5000)
        return self.driver.recorder

    def add(self):
        for _ in range(self.draw.randint(1, 5)):
            self.add_one(draw_request(self.draw))

    def burst(self):
        """Equal cold prefixes: the first is in the middle of it when more urgent ones arrive."""
        self.num_bursts += 1
        shared = self.draw.randint(4, 40)
        for _ in range(self.draw.choice([0, 60])):
            if self.scheduler.requests:
                self.driver.turn()
        for urgency in range(self.draw.randint(2, 5)):
            request = draw_request(self.draw)
            family = 10 + self.num_bursts
            self.add_one(
                evolve(request, family=family, num_shared=shared, priority=3 - urgency, hints={})
            )
            if urgency == 0:
                self.fill_seats()
            if self.draw.random() < 0.2:
                self.driver.executor.errors[f"r{self.num_added - 1}"] = "out of luck"

    def fill_seats(self):
        """Leave one seat, or few, beside what runs once the first of a burst does."""
        free = self.scheduler.sizes.max_num_seqs - len(self.scheduler.running)
        for _ in range(free - 2 if self.draw.random() < 0.7 else 0):
            self.add_one(evolve(draw_request(self.draw), num_shared=0, num_own=1, hints={}))
        self.turns(self.draw.randint(1, 2))

    def add_one(self, plan):
        model = self.driver.executor.model
        self.scheduler.clock.advance(1e-3)
        request = plan.make(
            f"r{self.num_added}", vocab_size=model.vocab_size, eos_token_id=model.eos_token_id
        )
        self.num_added += 1
        try:
            self.driver.add(request)
        except RequestRefusedError:
            assert request.request_id not in self.scheduler.requests

    def turns(self, count=None):
        for _ in range(count or self.draw.randint(1, 8)):
            self.driver.turn()

    def step(self):
        what = self.draw.choice(["plan", "compute", "update"])
        if what == "plan" and self.driver.num_in_flight < self.driver.depth:
            self.driver.plan()
        elif what == "compute":
            self.driver.compute()
        elif self.driver.num_in_flight:
            self.driver.update()

    def abort(self):
        live = list(self.scheduler.requests)
        for request_id in self.draw.sample(live, min(len(live), self.draw.choice([1, 3]))):
            self.driver.abort(request_id)

    def notice(self):
        self.scheduler.signal(self.draw.choice("xyz"))
        self.scheduler.signal(self.draw.choice("xyz"))
        if self.draw.random() < 0.5:
            self.gate.let_pass(self.draw.choice("xy"))

    def upset(self):
        what = self.draw.choice(["pause", "reset", "error", "error", "restart"])
        if what == "pause":
            self.scheduler.pause()
            self.driver.turn()
            self.scheduler.resume()
        elif what == "reset":
            self.scheduler.reset_prefix_cache()
        elif what == "restart":
            self.driver.restart()
        elif self.scheduler.running:
            victim = self.draw.choice(self.scheduler.running)
            self.driver.executor.errors[victim.request_id] = "out of luck"


def check_lives(seeds):
    preemptions = hits = 0
    for seed in seeds:
        life = Life(seed)
        life.live()
        preemptions += sum(request.num_preemptions for request in life.driver.requests)
        hits += sum(request.num_cached_tokens or 0 for request in life.driver.requests)
    assert preemptions > len(seeds)
    assert hits > len(seeds)


def check_hostile_lives(seeds):
    faults = ends = 0
    for seed in seeds:
        life = Life(seed, hostile=True)
        life.live()
        faults += sum(life.scheduler.fault_counts.values())
        ends += sum("'chaos'" in request.finish.detail for request in life.driver.requests)
    assert faults > len(seeds)
    assert ends > len(seeds)


def check_fast_path(seeds):
    for seed in seeds:
        full, fast = (
            Life(seed, max_depth=1, visit_everyone=everyone).live() for everyone in (True, False)
        )
        for step, (expected, found) in enumerate(zip(full.plans, fast.plans, strict=False)):
            assert expected == found, f"seed {seed}, step {step}"
        assert full == fast


def of_seeds(few: int, many: int) -> pytest.MarkDecorator:
    """Few seeds in the fast tier, others in the slow one, four times as many in the nightly one."""
    slow, nightly = range(1000, 1000 + many), range(10_000, 10_000 + 4 * many)
    return pytest.mark.parametrize(
        "seeds",
        [
            pytest.param(range(few), id=f"{few}"),
            pytest.param(slow, id=f"{len(slow)}", marks=pytest.mark.slow),
            pytest.param(nightly, id=f"{len(nightly)}", marks=pytest.mark.nightly),
        ],
    )


@of_seeds(60, 500)
def test_random_lives_keep_every_promise(seeds):
    """E1 to E7 and I1 to I6, over preemptions, hits, aborts, errors, pipelines."""
    check_lives(seeds)


@of_seeds(60, 500)
def test_hostile_components_break_no_promise(seeds):
    """One of each kind that now and then raises, answers nonsense or calls back."""
    check_hostile_lives(seeds)


def lend_without_care(monkeypatch):
    """A request leaves the plan though another one has adopted what it was to compute."""
    monkeypatch.setattr(PolicyPreemption, "_fills_any", lambda *arguments: False)


def keep_published(monkeypatch):
    """What a request that leaves the plan was to compute stays findable."""
    monkeypatch.setattr(PagedKV, "unpublish", lambda *arguments: None)


def keep_failed_published(monkeypatch):
    """What a failed request was to compute stays findable."""
    monkeypatch.setattr(PagedKV, "unpublish_blocks", lambda *arguments: None)


def rewind_no_request(monkeypatch):
    """A request goes on from blocks that a failed one was to compute."""
    monkeypatch.setattr(Failures, "_rewind", lambda *arguments: None)


@pytest.mark.parametrize(
    "plant", [lend_without_care, keep_published, keep_failed_published, rewind_no_request]
)
def test_random_lives_notice_blocks_that_no_step_computes(plant, monkeypatch):
    """Planted faults; the first lives see them, 500 at most."""
    plant(monkeypatch)
    with pytest.raises(InvariantError, match=r"^(I6|E4|I5)"):
        check_lives(range(500))


def test_blocks_of_a_third_request_between_void_ones_stay():
    """In this life a request has adopted a failed one's block, and behind it a sound one."""
    Life(11780, hostile=True).live()


@of_seeds(40, 300)
def test_random_lives_are_the_same_without_the_fast_path(seeds):
    """Each plan is equal in every field, block ids and their order included."""
    check_fast_path(seeds)
