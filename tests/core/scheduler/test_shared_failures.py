"""Blocks that no step computes: no request holds one, none finds one.

A block is published when the step that fills it is planned. These are the ways in which such
a step may not come about: its request leaves the plan, or the executor fails for it.
"""

import pytest

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.messages import ModelOutput
from batchwright.protocols import Limit, SchedulingPolicy
from batchwright.testing import Driver, ScriptedExecutor, make_plugin, make_request, prompt_tokens

PREFIX = prompt_tokens("shared", 64)


class Eager(SchedulingPolicy):
    """A third party's policy that takes blocks and seats by an order of its own."""

    name = "eager"

    def key(self, request):
        return request.priority

    def preempts(self, waiting, running):
        return waiting.priority < running.priority


def driver_of(
    *, depth=1, num_blocks=40, threshold=16, policy="fcfs", max_num_seqs=8, limit="long-prefill"
):
    config = {
        "scheduler": {
            "pipeline_depth": depth,
            "max_num_batched_tokens": 96,
            "policy": policy,
            "victim": "lowest-priority",
            "max_num_seqs": max_num_seqs,
        },
        "kv": {"num_blocks": num_blocks, "block_size": 16},
        "gate": [],
        "limit": [{"use": "long-prefill", "threshold": threshold}],
        "model": {"max_model_len": 256},
    }
    if policy == "priority":
        config["policy"] = {"priority": {"preempts": True}}
    if limit != "long-prefill":
        config["limit"] = [{"use": limit}]
    plugins = [make_plugin(policy=[Eager], limit=[EndsInGrant])]
    scheduler = scheduler_from_config(config, clock=VirtualClock(), plugins=plugins)
    executor = ScriptedExecutor.standalone(num_blocks, 16)
    return Driver(scheduler, executor, depth=depth)


def shared(name, priority=0, max_tokens=4):
    return make_request(name, PREFIX + prompt_tokens(name, 4), max_tokens, priority=priority)


@pytest.mark.parametrize("policy", ["priority", "eager"])
def test_request_whose_blocks_were_adopted_keeps_its_seat(policy):
    """W1 adopts the block that R's chunk of this plan fills; W2 finds no seat to take."""
    driver = driver_of(policy=policy, max_num_seqs=3)
    driver.add(make_request("F", 3, 9), shared("R", priority=9))
    driver.turn()
    driver.add(shared("W1", priority=1), shared("W2", priority=2))
    assert driver.plan().num_scheduled_tokens == {"F": 1, "R": 16, "W1": 16}
    assert driver.scheduler.requests["W1"].num_cached_tokens == 32
    driver.finish()


@pytest.mark.parametrize("policy", ["priority", "eager"])
def test_request_whose_blocks_were_adopted_keeps_its_blocks(policy):
    """The same where W2 lacks blocks: 12 of 16 are free, and it needs 13."""
    driver = driver_of(policy=policy, num_blocks=10, threshold=48)
    driver.add(make_request("F", 3, 9), shared("R", priority=9))
    driver.turn()
    driver.add(shared("W1", priority=1), make_request("W2", 100, 2, priority=2))
    assert list(driver.plan().num_scheduled_tokens) == ["F", "R", "W1"]
    driver.finish()


def test_request_whose_blocks_were_not_adopted_yields_its_seat():
    """The rule holds back no request that lends nothing."""
    driver = driver_of(policy="priority", max_num_seqs=3)
    driver.add(make_request("F", 3, 9), shared("R", priority=9))
    driver.turn()
    driver.add(make_request("W1", 20, 4, priority=1), make_request("W2", 20, 4, priority=2))
    assert driver.plan().num_scheduled_tokens == {"F": 1, "W1": 16, "W2": 16}
    driver.finish()


@pytest.mark.parametrize("depth", [2, 3])
def test_first_chunk_that_fails_is_not_found_later(depth):
    """The later chunks are in flight when the first one fails: an equal prompt hits nothing."""
    driver = driver_of(depth=depth)
    driver.add(make_request("F", 3, 40), shared("A"))
    for _ in range(depth):
        driver.plan()
    driver.executor.errors["A"] = "out of luck"
    finished = driver.update().finished
    assert finished["A"].detail == "out of luck"
    assert not list(driver.scheduler.view.published_blocks())
    driver.add(shared("B"))
    driver.finish()
    assert driver.requests[-1].num_cached_tokens == 0


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_request_that_shares_failed_blocks_is_rewound(depth):
    """B adopts what A is to compute; A fails; B computes all of it itself, and answers right."""
    driver = driver_of(depth=depth, threshold=80)
    driver.add(make_request("F", 3, 20), shared("A"), shared("B"))
    driver.plan()
    assert driver.scheduler.requests["B"].num_cached_tokens == 64
    driver.executor.errors["A"] = "out of luck"
    driver.update()
    b = driver.requests[2]
    assert (b.status.name, b.num_preemptions, b.num_output_tokens) == ("PREEMPTED", 1, 0)
    driver.finish()
    assert (b.finish.reason, b.num_recomputed_tokens) == ("length", 68)


def test_request_that_fails_because_of_shared_blocks_is_rewound():
    """What B reads of A's blocks may make its logits infinite: that is no fault of B."""
    driver = driver_of(threshold=80)
    driver.add(make_request("F", 3, 20), shared("A"), shared("B"))
    driver.plan()
    driver.executor.errors.update(A="out of luck", B="its logits are not finite")
    assert list(driver.update().finished) == ["A"]
    driver.finish()
    assert driver.requests[2].finish.reason == "length"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_request_that_shares_with_one_that_is_not_taken_up_is_rewound(depth, monkeypatch):
    """A is never computed, in this plan or in those behind it; B and C go on, and are right."""
    add = ScriptedExecutor.add_request

    def fail_for_a(executor, request):
        if request.req_id == "A":
            raise OverflowError("top_k")
        add(executor, request)

    monkeypatch.setattr(ScriptedExecutor, "add_request", fail_for_a)
    driver = driver_of(depth=depth)
    driver.add(make_request("F", 3, 20), shared("A"), shared("B"), shared("C"))
    driver.finish()
    assert [r.finish.reason for r in driver.requests] == ["length", "error", "length", "length"]


def test_rewinding_reaches_those_that_share_with_the_rewound():
    """C shares with B what B computed behind A's failed blocks; both go on, and are right."""
    driver = driver_of(depth=3, threshold=80)
    longer = PREFIX + prompt_tokens("longer", 32)
    driver.add(make_request("F", 3, 20), shared("A"), make_request("B", [*longer, 1], 3))
    driver.plan()
    driver.add(make_request("C", [*longer, 2], 3))
    driver.plan()
    assert driver.scheduler.requests["C"].num_cached_tokens == 96
    driver.executor.errors["A"] = "out of luck"
    driver.update()
    assert [r.num_preemptions for r in driver.requests] == [0, 0, 1, 1]
    driver.finish()


def test_ended_request_that_shared_failed_blocks_leaves_nothing_behind():
    """B is aborted while A's failing step is in flight; what B published is taken back too."""
    driver = driver_of(depth=2, threshold=80)
    longer = PREFIX + prompt_tokens("longer", 32)
    driver.add(make_request("F", 3, 20), shared("A"), make_request("B", [*longer, 1], 3))
    driver.plan()
    driver.abort("B")
    driver.executor.errors["A"] = "out of luck"
    driver.update()
    driver.add(make_request("C", [*longer, 2], 3))
    driver.finish()
    assert driver.requests[-1].num_cached_tokens == 0


def test_aborted_request_that_fails_is_not_found():
    """A has ended when its step fails: what it published is taken back nevertheless."""
    driver = driver_of(depth=2, threshold=80)
    driver.add(make_request("F", 3, 20), shared("A"))
    driver.plan()
    driver.abort("A")
    driver.executor.errors["A"] = "out of luck"
    driver.update()
    driver.add(shared("B"))
    driver.finish()
    assert driver.requests[-1].num_cached_tokens == 0


@pytest.mark.parametrize("row", [[], [1, 2], "x", [-1]])
def test_request_that_is_answered_nonsense_for_is_not_found(row):
    """Nonsense is no proof of a computation: what it published is taken back."""
    driver = driver_of(threshold=80)
    driver.add(shared("A"))
    plan = driver.scheduler.schedule()
    outputs = driver.scheduler.update_from_output(plan, ModelOutput(["A"], [row]))
    assert outputs.finished["A"].reason == "error"
    assert not list(driver.scheduler.view.published_blocks())


class EndsInGrant(Limit):
    """Ends R when it is asked about the second chunk of its prompt."""

    name = "ends-in-grant"

    def max_tokens(self, request, num_tokens, view):
        if request.request_id == "R" and request.num_computed_tokens == 16:
            self.ctx.end(request, "because")
        return min(num_tokens, 16)


def test_chunk_of_a_request_that_a_limit_ends_is_not_found_later():
    driver = driver_of(limit="ends-in-grant")
    driver.add(make_request("F", 3, 20), shared("R"))
    driver.turn()
    driver.turn()
    assert driver.requests[1].finish.detail == "because"
    driver.add(shared("B"))
    driver.finish()
    assert driver.requests[-1].num_cached_tokens == 16
