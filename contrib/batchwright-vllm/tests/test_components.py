"""Components decide inside vLLM's scheduler as they do in Batchwright's own."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest
from batchwright_vllm.engine_clock import EngineClock
from harness import Bench

from batchwright.exceptions import ConfigError

ACCEPTED = {"plugins": {"accept_degraded": ["gate.pre_enqueue"]}}


@pytest.fixture
def load() -> dict[str, Any]:
    return {"plugins": {"load": [str(Path(__file__).with_name("mine.py"))]}}


def test_a_third_party_policy_orders_the_queue(load: dict[str, Any]) -> None:
    bench = Bench({**load, "scheduler": {"policy": "longest"}}, max_num_seqs=1)
    for name, num_tokens in (("short", 4), ("long", 40), ("medium", 20)):
        bench.add(name, num_tokens)
    assert bench.order() == ["long", "medium", "short"]


def test_fair_serves_the_client_with_the_least_service() -> None:
    bench = Bench({"scheduler": {"policy": "fair"}}, max_num_seqs=1)
    for index in range(4):
        bench.add(f"a{index}", client="a")
    bench.add("b0", client="b")
    assert bench.order().index("b0") == 1


def test_fair_counts_the_admissions_of_the_same_step() -> None:
    bench = Bench({"scheduler": {"policy": "fair"}}, max_num_batched_tokens=24)
    for index in range(4):
        bench.add(f"a{index}", client="a")
    for index in range(2):
        bench.add(f"b{index}", client="b")
    assert list(bench.step()) == ["a0", "b0", "a1"]


def test_priority_names_the_victim_of_a_shortage() -> None:
    bench = Bench(
        {"scheduler": {"policy": "priority"}}, num_blocks=9, max_num_seqs=2, caching=False
    )
    bench.add("unimportant", 60, 40, priority=5)
    bench.add("important", 40, 60, priority=1)
    preempted: list[str] = []
    while bench.scheduler.requests:
        bench.scheduler.preempted = []
        bench.step()
        preempted += bench.scheduler.preempted
    assert set(preempted) == {"unimportant"}
    assert bench.outputs == {"important": 60, "unimportant": 40}


def test_a_third_party_victim_is_preempted_and_keeps_its_priority(load: dict[str, Any]) -> None:
    config = {**load, "scheduler": {"victim": "least-known"}}
    bench = Bench(config, num_blocks=9, max_num_seqs=2, caching=False)
    bench.add("small", 20, 80, priority=3)
    bench.add("large", 60, 40)
    preempted: list[str] = []
    while bench.scheduler.requests:
        bench.scheduler.preempted = []
        bench.step()
        preempted += bench.scheduler.preempted
        small = bench.scheduler.requests.get("small")
        assert small is None or small.priority == 3
    assert preempted[:1] == ["small"]
    assert bench.outputs == {"small": 80, "large": 40}


def test_a_request_waits_for_a_signal(load: dict[str, Any]) -> None:
    bench = Bench({**load, "gate": [{"use": "door"}]})
    bench.add("waits", waits=1)
    bench.add("enters")
    assert bench.step() == {"enters": 8}
    assert bench.scheduler.hooks.view.num_parked == 1
    assert bench.scheduler.get_request_counts() == (1, 1)
    bench.scheduler.hooks.signal("opened")
    bench.scheduler.requests["waits"].sampling_params.extra_args.clear()
    bench.scheduler.hooks.served["waits"].hints = {}
    assert bench.step() == {"enters": 1, "waits": 8}
    bench.drain()


def test_a_rejected_request_ends_with_an_error_and_others_go_on(load: dict[str, Any]) -> None:
    bench = Bench({**load, "gate": [{"use": "refuses"}]})
    bench.add("refused", client="bad")
    bench.add("served", client="good")
    bench.drain()
    assert bench.finished == {"refused": "error", "served": "length"}


def test_a_policy_that_fails_on_a_request_ends_that_request(
    load: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench({**load, "scheduler": {"policy": "fails"}})
    with caplog.at_level(logging.WARNING):
        bench.add("broken", client="bad")
        bench.add("served", client="good")
        bench.drain()
    assert bench.finished == {"broken": "error", "served": "length"}
    assert "policy 'fails'" in caplog.text
    assert "no such client" in caplog.text


def test_a_limit_cuts_prompts_and_no_decodes(load: dict[str, Any]) -> None:
    bench = Bench({**load, "limit": [{"use": "half"}]})
    bench.add("cut", 40, 3)
    assert bench.steps(4) == [{"cut": 20}, {"cut": 10}, {"cut": 5}, {"cut": 2}]
    bench.drain()
    assert bench.outputs == {"cut": 3}


def test_a_control_caps_the_admissions_of_a_step(load: dict[str, Any]) -> None:
    bench = Bench({**load, "control": [{"use": "one-at-a-time"}]})
    for index in range(3):
        bench.add(f"r{index}")
    assert bench.steps(3) == [{"r0": 8}, {"r0": 1, "r1": 8}, {"r0": 1, "r1": 1, "r2": 8}]


def test_a_gate_that_never_opens_is_overruled(
    load: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench({**load, "gate": [{"use": "never"}]})
    bench.add("stuck")
    with caplog.at_level(logging.WARNING):
        bench.drain(limit=30)
    assert bench.finished == {"stuck": "length"}
    assert "planned without gates" in caplog.text


def test_recomputed_tokens_are_counted_without_accounts() -> None:
    bench = Bench({}, num_blocks=9, max_num_seqs=2, caching=False)
    bench.add("first", 40, 60)
    bench.add("second", 60, 40)
    most: dict[str, int] = {}
    bench.scheduler.preempted = []
    while bench.scheduler.requests:
        bench.step()
        for name, served in bench.scheduler.hooks.served.items():
            most[name] = served.num_recomputed_tokens
            assert served.num_recomputed_tokens <= served.high_water * served.num_preemptions
    assert most["first"] == 0
    assert most["second"] >= 60


def test_a_policy_without_an_account_for_a_request_ends_that_request(load: dict[str, Any]) -> None:
    bench = Bench({**load, "scheduler": {"policy": "no-account"}})
    bench.add("broken", client="bad")
    bench.add("served", client="good")
    bench.drain()
    assert bench.finished == {"broken": "error", "served": "length"}


def test_an_observer_that_raises_is_disabled(
    load: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench({**load, "observer": [{"use": "stops"}]})
    bench.add("served")
    with caplog.at_level(logging.WARNING):
        bench.drain()
    assert bench.finished == {"served": "length"}
    assert caplog.text.count("it is disabled for the rest of the run") == 1


def test_a_control_that_always_raises_is_left_out_of_each_step(
    load: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench({**load, "control": [{"use": "broken"}]})
    bench.add("served", max_tokens=10)
    with caplog.at_level(logging.WARNING):
        bench.drain()
    assert bench.finished == {"served": "length"}
    assert "control 'broken'" in caplog.text


def test_queue_timeout_ends_requests_that_wait_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(EngineClock, "now", lambda self: now[0])
    config = {**ACCEPTED, "gate": [{"use": "queue-timeout", "seconds": 60.0}]}
    bench = Bench(config, max_num_seqs=1)
    bench.add("first", max_tokens=30)
    bench.add("late")
    bench.step()
    now[0] += 61
    bench.drain()
    assert bench.finished == {"first": "length", "late": "error"}


def test_quota_bounds_what_a_client_runs() -> None:
    config = {"gate": [{"use": "quota", "tokens": 12}]}
    bench = Bench(config)
    for name, client in (("a0", "a"), ("a1", "a"), ("b0", "b")):
        bench.add(name, client=client)
    assert set(bench.step()) == {"a0", "b0"}
    bench.steps(10)
    assert set(bench.finished) == {"a0", "b0"}
    assert "a1" in bench.scheduler.requests


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"executor": {"use": "simulated"}}, r"never calls Simulated\.execute\(\)"),
        ({"attention": {"backend": "torch"}}, r"never calls \w+\.forward\(\)"),
        ({"scheduler": {"use": "mine"}}, r"never calls Mine\.\w+\(\)"),
        ({"kv": {"hasher": "mine"}}, r"never calls MyHasher\.digest\(\)"),
        ({"gate": [{"use": "queue-timeout"}]}, "add 'gate.pre_enqueue' to plugins.accept_degraded"),
    ],
)
def test_what_vllm_cannot_honour_is_refused_by_name(
    load: dict[str, Any], config: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        Bench({**load, **config})


def test_sizes_of_the_toml_file_that_differ_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Bench({"scheduler": {"max_num_seqs": 77}, "kv": {"num_blocks": 500}})
    assert "scheduler.max_num_seqs = 77 of the TOML file has no effect: vLLM's is 8" in caplog.text
    assert "kv.num_blocks = 500" in caplog.text


def test_extra_args_are_fields_and_hints() -> None:
    bench = Bench({})
    bench.add(
        "r",
        arrival_time=time.time() - 5,
        client="a",
        group="g",
        slo_class="fast",
        deadline=2,
        x="y",
    )
    view = bench.scheduler.hooks.view.request("r")
    assert view is not None
    assert (view.client, view.group, view.slo_class) == ("a", "g", "fast")
    assert view.arrival_time == pytest.approx(bench.scheduler.hooks.clock.now() - 5, abs=1)
    assert view.deadline == view.arrival_time + 2
    assert dict(view.hints) == {"x": "y"}
    bench.drain()
    assert bench.scheduler.hooks.served == {}
