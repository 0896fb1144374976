"""Requests that waited too long end with an error that says so."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright import RequestRefusedError
from batchwright.exceptions import ConfigError


@pytest.fixture
def timeout(make_bench: Any) -> Any:
    def make(**options: Any) -> Any:
        gates = [{"use": "full-need"}, {"use": "queue-timeout", **options}]
        observers = [{"use": "invariants"}]
        return make_bench(sections={"gate": gates, "observer": observers}, max_num_seqs=1)

    return make


def ends(b: Any, steps: int) -> dict[str, tuple[float, str]]:
    """Return the time and the reason of each error."""
    found = {}
    for _ in range(steps):
        b.run(1)
        for name, finish in b.finished.items():
            if finish.reason == "error":
                found.setdefault(name, (b.scheduler.clock.now() - 1.0, finish.detail))
    return found


def test_a_request_ends_where_it_waits_however_deep(timeout: Any) -> None:
    """The seat is taken, no scan looks at the queue; a timer ends both."""
    b = timeout(seconds=3.0)
    b.add("running", 4, 20)
    b.run(1)
    b.add("a", 4, 1)
    b.run(1)
    b.add("b", 4, 1)
    reason = "gate 'queue-timeout': waited 3 s without a first admission"
    assert ends(b, 8) == {"a": (4.0, reason), "b": (5.0, reason)}
    assert b.scheduler.num_waiting == 0


def test_the_tightest_bound_counts(timeout: Any) -> None:
    b = timeout(seconds=9.0, classes={"chat": 5.0, "batch": 90.0})
    b.add("running", 4, 20)
    b.run(1)
    b.add("chat", 4, 1, slo_class="chat")
    b.add("batch", 4, 1, slo_class="batch")
    b.add("own", 4, 1, slo_class="chat", hints={"queue_timeout": 2})
    b.add("longer", 4, 1, slo_class="chat", hints={"queue_timeout": 60})
    when = {name: time for name, (time, _) in ends(b, 15).items()}
    assert when == {"own": 3.0, "chat": 6.0, "longer": 6.0, "batch": 10.0}


def test_who_was_served_once_is_not_ended(timeout: Any, make_bench: Any) -> None:
    """B is preempted, and waits for longer than the bound."""
    gates = [{"use": "full-need"}, {"use": "queue-timeout", "seconds": 3.0}]
    b = make_bench(sections={"gate": gates}, usable=6, block_size=4)
    b.add("A", 8, 14)
    b.add("B", 8, 12)
    b.run(60)
    assert {finish.reason for finish in b.finished.values()} == {"length"}


def test_without_a_bound_no_request_is_ended(timeout: Any) -> None:
    b = timeout(classes={"chat": 1.0})
    b.add("running", 4, 20)
    b.add("waits", 4, 1)
    assert ends(b, 18) == {}
    assert b.scheduler.next_timer is None


def test_infinite_bounds_are_none(timeout: Any) -> None:
    b = timeout(seconds=float("inf"), classes={"chat": float("inf")})
    b.add("running", 4, 20)
    b.add("waits", 4, 1, slo_class="chat", hints={"queue_timeout": float("inf")})
    assert ends(b, 18) == {}
    assert b.scheduler.next_timer is None
    assert b.scheduler.fault_counts == {}


def test_who_comes_first_when_its_time_is_over_is_not_admitted(timeout: Any) -> None:
    """The seat becomes free in the very step in which it ends."""
    b = timeout(seconds=3.0)
    b.add("running", 4, 3)
    b.add("late", 4, 1)
    assert b.run(4) == [{"running": 4}, {"running": 1}, {"running": 1}, {}]
    assert b.finished["late"].detail == "gate 'queue-timeout': waited 3 s without a first admission"


def test_a_hint_must_be_a_time(timeout: Any) -> None:
    b = timeout()
    for odd in ("3", -1, float("nan"), 10**400):
        with pytest.raises(RequestRefusedError, match=r"hints.queue_timeout must be a number"):
            b.add("r", 4, 1, hints={"queue_timeout": odd})


def test_options_are_checked(timeout: Any) -> None:
    with pytest.raises(ConfigError, match=r"gate\[1\].classes: expected seconds >= 0, got -2.0"):
        timeout(classes={"chat": -2.0})
