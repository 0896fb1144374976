"""Two adapter slots, and 20,000 requests behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def count_looks(b: Any) -> dict[str, int]:
    """Count, from now on, how often the resource is asked about each request."""
    (resource,) = b.scheduler.components.resources
    looks: dict[str, int] = {}
    reserve: Callable[[Any], bool] = resource.reserve

    def counting(request: Any) -> bool:
        looks[request.request_id] = looks.get(request.request_id, 0) + 1
        return reserve(request)

    resource.reserve = counting
    return looks


@pytest.fixture
def slots(load: Any) -> Any:
    def make(**options: Any) -> Any:
        return load("adapter_slots", {"slots": 2}, **options)

    return make


def test_at_most_two_adapters_run_and_others_pass(slots: Any) -> None:
    b = slots()
    for name, adapter, length in (
        ("x0", "x", 3),
        ("y0", "y", 5),
        ("z0", "z", 2),
        ("x1", "x", 2),
        ("w0", "w", 2),
        ("base", None, 1),
    ):
        b.add(name, 4, length, adapter=adapter)
    assert b.step() == {"x0": 4, "y0": 4, "x1": 4, "base": 4}
    reason = "resource 'adapter-slots' is short (deferred until 'adapter z')"
    assert b.scheduler.requests["z0"].waiting_reason == reason
    b.add("y1", 4, 3, adapter="y")
    assert b.step() == {"x0": 1, "y0": 1, "x1": 1, "y1": 4}
    assert b.step() == {"x0": 1, "y0": 1, "y1": 1}
    # x is through: z, which asked first, takes its slot; w waits for the next.
    assert b.step() == {"y0": 1, "y1": 1, "z0": 4}
    assert b.step() == {"y0": 1, "z0": 1}
    assert b.step() == {"w0": 4}
    b.drain()


def test_an_aborted_one_hands_the_slot_on(slots: Any) -> None:
    """A slot does not stay empty for an adapter that nobody wants any more."""
    b = slots()
    for name, adapter, length in (("x", "x", 2), ("y", "y", 20), ("z", "z", 2), ("w", "w", 2)):
        b.add(name, 4, length, adapter=adapter)
    b.steps(2)
    b.scheduler.abort("z")
    assert b.steps(2) == [{"y": 1, "w": 4}, {"y": 1, "w": 1}]
    b.drain()


def test_skipped_requests_cost_nothing(slots: Any) -> None:
    """20,000 requests of 200 adapters wait for a slot; each is looked at once, then never."""
    b = slots(max_num_seqs=64, usable=2000, budget=4096)
    looks = count_looks(b)
    b.add("x", 4, 60, adapter="x")
    b.add("y", 4, 1000, adapter="y")
    b.step()
    for i in range(20_000):
        b.add(f"r{i}", 4, 2, adapter=f"a{i % 200}")
    b.step()
    assert sum(looks.values()) == 20_002
    looks.clear()
    # Base requests and those of loaded adapters pass, and nobody else is looked at.
    for i in range(50):
        b.add(f"base{i}", 4, 1)
        b.add(f"x{i}", 4, 1, adapter="x")
        assert b.step() == {"x": 1, "y": 1, f"base{i}": 4, f"x{i}": 4}
    assert sum(looks.values()) == 100
    looks.clear()
    while "x" in b.scheduler.requests:
        b.step()
    assert looks == {}
    # One slot is free: 62 seats are filled with requests of one adapter; the other 19,900
    # are left alone, and so is who finds no seat.
    granted = b.step()
    assert list(granted) == ["y", *(f"r{200 * i}" for i in range(63))]
    assert looks == dict.fromkeys(list(granted)[1:], 1)
