"""Statistics against sums over a whole recorded run."""

import random

import pytest

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.testing import Driver, fakes, make_request


def make_driver(*, depth=1, num_blocks=14, limit=(), **scheduler):
    made = scheduler_from_config(
        {
            "scheduler": {"pipeline_depth": depth, **scheduler},
            "kv": {"num_blocks": num_blocks},
            "limit": list(limit),
            "observer": [{"use": "stats"}],
        },
        clock=VirtualClock(),
        plugins=[fakes],
    )
    return Driver(made, depth=depth)


def summary(driver):
    return driver.scheduler.components.observers[0].summary()


def test_nothing_happened():
    found = summary(make_driver())
    assert found["requests_added"] == found["steps"] == found["output_tokens"] == 0
    assert found["ttft_p50_s"] is None
    assert found["recompute_tax_ratio"] is None
    assert found["kv_peak_ratio"] is None


def test_times_of_two_requests():
    """A step takes a second; A arrives at 0 and B, behind it, at 1."""
    driver = make_driver(max_num_seqs=1)
    driver.add(make_request("A", 10, 3))
    driver.turn()
    driver.add(make_request("B", 10, 1))
    driver.finish()
    found = summary(driver)
    assert found["ttft_mean_s"] == pytest.approx((1 + 3) / 2)
    assert found["queue_time_p50_s"] == pytest.approx((0 + 2) / 2)
    assert found["tpot_mean_s"] == pytest.approx(1.0)
    assert found["e2e_p99_s"] == pytest.approx(3.0)
    assert found["duration_s"] == pytest.approx(4.0)
    assert found["output_tokens_per_s"] == pytest.approx(1.0)
    assert found["requests_per_s"] == pytest.approx(0.5)
    assert found["finished_length"] == 2


def test_preemption_counts_its_first_token_once():
    driver = make_driver()
    driver.add(*(make_request(n, p, 40) for n, p in (("A", 31), ("B", 30), ("C", 30))))
    driver.add(make_request("E", 8, 4))
    driver.turn()
    driver.add(make_request("D", 60, 20))
    driver.finish()
    found = summary(driver)
    request = next(request for request in driver.requests if request.request_id == "D")
    assert request.num_preemptions >= 2
    assert found["preemptions"] == sum(r.num_preemptions for r in driver.requests)
    assert found["ttft_mean_s"] == pytest.approx(1.0)
    recomputed = sum(r.num_recomputed_tokens for r in driver.requests)
    scheduled = sum(sum(grants.values()) for grants in driver.recorder.grants)
    assert recomputed > 0
    assert found["recomputed_tokens"] == recomputed
    assert found["scheduled_tokens"] == scheduled
    assert found["recompute_tax_ratio"] == pytest.approx(recomputed / scheduled)
    assert found["kv_peak_ratio"] == 1.0
    assert found["prefix_hit_tokens"] == 0
    assert found["prefix_queried_tokens"] == 31 + 30 + 30 + 8 + 60


def test_prefix_hits_count_once_a_request():
    driver = make_driver(num_blocks=40)
    prompt = list(range(64))
    for name in ("first", "second"):
        driver.add(make_request(name, prompt, 1))
        driver.turn()
        driver.turn()
    found = summary(driver)
    assert (found["prefix_queried_tokens"], found["prefix_hit_tokens"]) == (128, 48)
    assert found["prefix_hit_ratio"] == pytest.approx(0.375)


def test_aborted_requests_are_counted_and_not_timed():
    driver = make_driver()
    driver.add(make_request("A", 10, 9), make_request("B", 10, 2))
    for _ in range(3):
        driver.turn()
    driver.abort("A")
    driver.finish()
    found = summary(driver)
    assert (found["finished_abort"], found["finished_length"]) == (1, 1)
    assert found["e2e_mean_s"] == pytest.approx(2.0)
    assert found["output_tokens"] == 3 + 2


def test_live_requests_count_too():
    driver = make_driver()
    driver.add(make_request("A", 10, 9))
    driver.turn()
    driver.turn()
    found = summary(driver)
    assert found["requests_live"] == 1
    assert found["output_tokens"] == 2


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("everyone", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_sums_over_the_run(seed, everyone, depth):
    """Through preemptions and aborts, with and without the fast path."""
    limit = [{"use": "visit-everyone"}] if everyone else []
    driver = make_driver(depth=depth, limit=limit, max_num_seqs=6)
    draw = random.Random(seed)
    decodes = 0
    for step in range(200):
        if step < 80 and draw.random() < 0.4:
            driver.add(make_request(f"r{step}", draw.randint(1, 60), draw.randint(1, 30)))
        if driver.scheduler.requests and draw.random() < 0.05:
            driver.abort(draw.choice(list(driver.scheduler.requests)))
        while driver.num_in_flight < depth:
            plan = driver.plan()
            decodes += count_decodes(driver, plan)
        driver.update()
    found = summary(driver)
    grants = driver.recorder.grants
    assert found["steps"] == len(grants)
    assert found["empty_steps"] == sum(1 for granted in grants if not granted)
    assert found["scheduled_tokens"] == sum(sum(granted.values()) for granted in grants)
    assert found["output_tokens"] == sum(map(len, driver.recorder.outputs.values()))
    assert found["preemptions"] == sum(r.num_preemptions for r in driver.requests)
    assert found["recomputed_tokens"] == sum(r.num_recomputed_tokens for r in driver.requests)
    assert found["decode_tokens"] == decodes
    if everyone or depth > 1:
        assert found["decode_batch_ratio"] == 0
    else:
        assert found["decode_batch_ratio"] > 0.5


def count_decodes(driver, plan):
    """Grants to requests that owed one token: they owe none now, and were granted one."""
    owed = (
        driver.scheduler.requests[n].num_new_tokens + g
        for n, g in plan.num_scheduled_tokens.items()
    )
    placeholder = 1 if driver.depth > 1 else 0  # the token to come is owed already
    return sum(1 for num_new_tokens in owed if num_new_tokens - placeholder == 1)
