"""Accounts: what the core keeps as a rate equals what a bookkeeper would add up."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.counters import SharedCount
from batchwright.protocols import SchedulingPolicy
from batchwright.testing import Driver, ScriptedExecutor, fakes, make_plugin, make_request
from batchwright.usage import UsageByAccount

DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["decode tokens", "batched", "blocks", "decode step", "step"]),
        st.sampled_from("ab"),
        st.integers(-3, 5),
    ),
    max_size=50,
)


@given(deeds=DEEDS)
def test_rates_equal_sums(deeds):
    """A rate over a shared count adds up to what stepping through it adds up to."""
    decode_steps, steps = SharedCount(3), SharedCount(8)
    usage = UsageByAccount(decode_steps, steps)
    tokens, blocks = dict.fromkeys("ab", 0), dict.fromkeys("ab", 0)
    decoding, held = dict.fromkeys("ab", 0), dict.fromkeys("ab", 0)
    for deed, name, number in deeds:
        account = usage.open(name)
        if deed == "decode tokens":
            account.add_decode_tokens(number)
            tokens[name] += number
        elif deed == "batched":
            account.change_num_batched(number)
            decoding[name] += number
        elif deed == "blocks":
            account.change_num_blocks(number)
            held[name] += number
        elif deed == "decode step":
            decode_steps.value += 1
            tokens = {key: tokens[key] + decoding[key] for key in tokens}
        else:
            steps.value += 1
            blocks = {key: blocks[key] + held[key] for key in blocks}
        for key in usage:
            assert usage[key].decode_tokens == tokens[key]
            assert usage[key].block_steps == blocks[key]
            assert usage[key].num_blocks == held[key]


def test_unknown_account_reads_as_one_never_served():
    usage = UsageByAccount(SharedCount(), SharedCount())
    account = usage["nobody"]
    assert (account.prefill_tokens, account.decode_tokens, account.block_steps) == (0, 0, 0)
    assert len(usage) == 0
    usage.open("somebody")
    assert list(usage) == ["somebody"]
    assert usage.open("somebody") is usage["somebody"]


class ByClient(SchedulingPolicy):
    """First come, first served, with an account a client."""

    name = "by-client"

    def account(self, request):
        return request.client


class Books:
    """Adds up, step by step and request by request, what the usage should say."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.decode = dict.fromkeys("ab", 0)
        self.prefill = dict.fromkeys("ab", 0)
        self.block_steps = dict.fromkeys("ab", 0)
        self.hits = dict.fromkeys("ab", 0)

    def after(self, plan):
        for name, num_tokens in plan.num_scheduled_tokens.items():
            request = self.scheduler.requests[name]
            computed = request.num_computed_tokens - num_tokens
            num_new_tokens = request.num_tokens - computed
            kind = self.prefill if num_new_tokens > 1 else self.decode
            kind[request.client] += num_tokens
            if any(name == new.req_id for new in plan.scheduled_new_reqs) or (
                name in plan.scheduled_cached_reqs.resumed_req_ids
            ):
                self.hits[request.client] += computed


@pytest.mark.parametrize("visit_everyone", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_usage_equals_the_books_of_a_run(seed, visit_everyone):
    """Decode, prefill and cached tokens and blocks held, through preemption and abort."""
    draw = random.Random(seed)
    scheduler = scheduler_from_config(
        {
            "scheduler": {"policy": "by-client", "max_num_batched_tokens": 24, "max_num_seqs": 5},
            "kv": {"num_blocks": 12, "block_size": 4},
            "limit": [{"use": "visit-everyone"}] if visit_everyone else [],
        },
        clock=VirtualClock(),
        plugins=[fakes, make_plugin(policy=[ByClient])],
    )
    driver = Driver(scheduler, ScriptedExecutor.standalone(12, 4))
    books, usage = Books(scheduler), scheduler._state.usage
    for step in range(120):
        if step < 60 and draw.random() < 0.4:
            prompt = [*range(1, 1 + draw.randint(0, 8)), step]
            driver.add(
                make_request(f"r{step}", prompt, draw.randint(1, 25), client=draw.choice("ab"))
            )
        if scheduler.requests and draw.random() < 0.05:
            driver.abort(draw.choice(list(scheduler.requests)))
        books.after(driver.plan())
        held = dict.fromkeys("ab", 0)
        for request in scheduler.running:
            held[request.client] += len(scheduler.kv_manager.block_ids(request.view))
        for client in "ab":
            books.block_steps[client] += held[client]
            account = usage[client]
            assert account.decode_tokens == books.decode[client]
            assert account.prefill_tokens == books.prefill[client]
            assert account.cached_tokens == books.hits[client]
            assert account.num_blocks == held[client]
            assert account.block_steps == books.block_steps[client]
        driver.update()
    driver.finish()
    again = dict.fromkeys("ab", 0)
    for request in driver.requests:
        again[request.client] += request.num_recomputed_tokens
    assert {client: usage[client].recomputed_tokens for client in "ab"} == again
    assert sum(again.values()) > 0
