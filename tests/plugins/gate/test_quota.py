"""Tokens of a client in a window of time."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.exceptions import ConfigError


@pytest.fixture
def quota(make_bench: Any) -> Any:
    def make(*, seats: int = 8, **options: Any) -> Any:
        gates = [{"use": "full-need"}, {"use": "quota", "window": 10.0, **options}]
        observers = [{"use": "invariants"}]
        return make_bench(sections={"gate": gates, "observer": observers}, max_num_seqs=seats)

    return make


def test_a_client_waits_for_the_next_window(quota: Any) -> None:
    """100 tokens: 60 + 40 and an output each; the third waits for 10 s, others pass it.

    The key is released by the step at 10 s, and heeded by the next one.
    """
    b = quota(tokens=100)
    for name, prompt in (("a0", 60), ("a1", 40), ("a2", 10)):
        b.add(name, prompt, 1, client="a")
    b.add("b0", 50, 1, client="b")
    assert b.run(1) == [{"a0": 60, "a1": 40, "b0": 50}]
    reason = "gate 'quota': client 'a' has used 100 of 100 tokens in this window"
    assert b.scheduler.requests["a2"].waiting_reason == f"{reason} (deferred until 'gate[1] 1')"
    assert b.run(11) == [{}] * 10 + [{"a2": 10}]


def test_outputs_are_charged_at_the_end(quota: Any) -> None:
    b = quota(tokens=100)
    b.add("a0", 50, 20, client="a")
    b.run(1)
    b.add("a1", 40, 1, client="a")
    assert b.run(1) == [{"a0": 1, "a1": 40}]  # 90 until now
    b.run(4)
    gate = b.scheduler.components.gates[1]
    assert gate._used == {"a": 91}
    b.run(16)  # two windows later: 20 outputs of a0
    assert gate._used == {"a": 20}


def test_a_request_is_charged_once(make_bench: Any) -> None:
    """B is preempted and admitted again."""
    gates = [{"use": "full-need"}, {"use": "quota", "tokens": 1000}]
    b = make_bench(sections={"gate": gates}, usable=6, block_size=4)
    b.add("A", 8, 12, client="a")
    preempted = b.add("B", 8, 12, client="b")
    b.drain()
    assert preempted.num_preemptions == 1
    assert b.scheduler.components.gates[1]._used == {"a": 20, "b": 20}


def test_who_was_admitted_once_returns_whatever_is_used(make_bench: Any) -> None:
    gates = [{"use": "full-need"}, {"use": "quota", "tokens": 16, "window": 1000.0}]
    b = make_bench(sections={"gate": gates}, usable=6, block_size=4)
    b.add("A", 8, 12, client="a")
    preempted = b.add("B", 8, 12, client="a")
    b.drain()
    assert preempted.num_preemptions == 1


def test_clients_have_quotas_of_their_own(quota: Any) -> None:
    b = quota(tokens=10, clients={"a": 30})
    for client in "ab":
        for i in range(3):
            b.add(f"{client}{i}", 10, 1, client=client)
    assert b.step() == {"a0": 10, "a1": 10, "a2": 10, "b0": 10}


def test_a_larger_prompt_enters_an_unused_window(quota: Any) -> None:
    b = quota(tokens=10)
    b.add("huge", 50, 1, client="a")
    assert b.step() == {"huge": 50}


def test_windows_are_counted_from_the_start_whatever_is_slept_through(quota: Any) -> None:
    """25 s are two windows and a half: the third ends at 30 s."""
    b = quota(tokens=10)
    b.scheduler.clock.advance(25.0)
    b.add("a0", 10, 1, client="a")
    b.add("a1", 10, 1, client="a")
    assert b.step() == {"a0": 10}
    assert b.scheduler.next_timer == 30.0


def test_options_are_checked(quota: Any) -> None:
    with pytest.raises(ConfigError, match=r"gate\[1\].clients: expected tokens >= 1, got 0"):
        quota(clients={"a": 0})
    with pytest.raises(
        ConfigError, match=r"gate\[1\].window: expected a number > 0 and < inf, got 0"
    ):
        quota(window=0)
    with pytest.raises(ConfigError, match=r"gate\[1\].window: expected a number > 0 and < inf"):
        quota(window=float("inf"))
