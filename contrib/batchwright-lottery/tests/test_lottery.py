"""The policy and the gate, driven without a model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from batchwright_lottery import Lottery, MaxPerClient

from batchwright import ConfigError, ModelOutput, Request, SamplingParams, VirtualClock
from batchwright.assembly import scheduler_from_config
from batchwright.testing.conformance import GateConformance, PolicyConformance


class TestLottery(PolicyConformance):
    component = Lottery
    options = {"tickets": {"ada": 3}}


class TestMaxPerClient(GateConformance):
    component = MaxPerClient
    options = {"requests": 1}


def make_scheduler(**config: Any) -> Any:
    return scheduler_from_config(config, clock=VirtualClock())


def add(scheduler: Any, client: str, number: int, max_tokens: int = 1) -> None:
    scheduler.add_request(
        Request(
            request_id=f"{client}-{number}",
            prompt_token_ids=[ord(client[0]), number],
            sampling_params=SamplingParams(max_tokens=max_tokens, ignore_eos=True),
            client=client,
        )
    )


def step(scheduler: Any) -> list[str]:
    """One step; who was admitted in it."""
    plan = scheduler.schedule()
    ids = list(plan.num_scheduled_tokens)
    scheduler.update_from_output(plan, ModelOutput(ids, [[7]] * len(ids)))
    return [new.req_id for new in plan.scheduled_new_reqs]


def admissions(seed: int, num_each: int, tickets: dict[str, int]) -> list[str]:
    """Clients in the order of admission, one a step, while all of them wait."""
    scheduler = make_scheduler(
        scheduler={"policy": "lottery", "max_num_seqs": 1, "seed": seed},
        policy={"lottery": {"tickets": tickets}},
    )
    for number in range(num_each):
        for client in ("ada", "grace"):
            add(scheduler, client, number)
    order = []
    while len(order) < 2 * num_each:
        (admitted,) = step(scheduler)
        order.append(admitted)
    return order


def test_lottery_serves_in_proportion_to_tickets() -> None:
    """While both wait, three of four admissions are ada's."""
    order = admissions(seed=1, num_each=1000, tickets={"ada": 3})
    clients = [request_id.partition("-")[0] for request_id in order]
    last_of_ada = max(i for i, client in enumerate(clients) if client == "ada")
    counted = Counter(clients[: last_of_ada + 1])
    share = counted["ada"] / counted.total()
    assert share == pytest.approx(0.75, abs=0.05)


def test_lottery_serves_a_client_in_order_of_arrival() -> None:
    order = admissions(seed=2, num_each=50, tickets={"grace": 5})
    of_ada = [request_id for request_id in order if request_id.startswith("ada")]
    assert of_ada == [f"ada-{number}" for number in range(50)]


def test_lottery_repeats_under_the_same_seed_only() -> None:
    first, again, other = (admissions(seed, 50, {}) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_lottery_draws_anew_for_a_client_that_returns() -> None:
    """A client that was away has no claim on the time it missed."""
    scheduler = make_scheduler(scheduler={"policy": "lottery", "max_num_seqs": 1})
    add(scheduler, "ada", 0)
    step(scheduler)
    for number in range(400):
        add(scheduler, "grace", number)
    for _ in range(100):
        step(scheduler)
    for number in range(1, 201):
        add(scheduler, "ada", number)
    winners = [step(scheduler)[0].partition("-")[0] for _ in range(200)]
    assert Counter(winners)["ada"] == pytest.approx(100, abs=35)


def test_lottery_refuses_a_client_without_tickets() -> None:
    with pytest.raises(ConfigError, match="'ada' needs at least 1 ticket, got 0"):
        make_scheduler(scheduler={"policy": "lottery"}, policy={"lottery": {"tickets": {"ada": 0}}})


def bounded(requests: int) -> Any:
    return make_scheduler(
        gate=[{"use": "full-need"}, {"use": "max-per-client", "requests": requests}]
    )


def test_max_per_client_passes_over_who_has_enough_running() -> None:
    """Ada's third and fourth wait for an end; grace's, behind them, do not."""
    scheduler = bounded(requests=2)
    for number in range(4):
        add(scheduler, "ada", number, max_tokens=2)
    add(scheduler, "grace", 0, max_tokens=9)
    assert step(scheduler) == ["ada-0", "ada-1", "grace-0"]
    reason = scheduler.requests["ada-2"].waiting_reason
    assert "2 requests of client 'ada' run" in reason
    assert step(scheduler) == []
    assert step(scheduler) == ["ada-2", "ada-3"]


def test_max_per_client_counts_aborted_requests_out() -> None:
    scheduler = bounded(requests=1)
    for number in range(3):
        add(scheduler, "ada", number, max_tokens=9)
    assert step(scheduler) == ["ada-0"]
    scheduler.abort("ada-1")  # it waits: its end frees nothing
    assert step(scheduler) == []
    scheduler.abort("ada-0")
    assert step(scheduler) == ["ada-2"]


def test_max_per_client_counts_preempted_requests_out() -> None:
    """A request that yields its blocks frees its place, too, and takes it again."""
    scheduler = make_scheduler(
        kv={"num_blocks": 5, "block_size": 2, "enable_prefix_caching": False},
        gate=[{"use": "max-per-client", "requests": 2}],
    )
    add(scheduler, "ada", 0, max_tokens=6)
    add(scheduler, "ada", 1, max_tokens=6)
    while scheduler.has_unfinished:
        step(scheduler)
        (gate,) = scheduler.components.gates
        assert gate._num_running.total() == len(scheduler.running)
    assert scheduler.kv_manager.num_free_blocks == 4
