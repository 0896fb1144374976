"""Earliest deadline first, with those that are lost behind all others."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright import SchedulingPolicy
from batchwright.testing import fakes, make_plugin


@pytest.fixture
def edf(policy_bench: Any) -> Any:
    def make(**options: Any) -> Any:
        return policy_bench("edf", {"decode_time": 1.0}, max_num_seqs=1, **options)

    return make


def run(b: Any, steps: int) -> list[dict[str, int]]:
    """Steps of one second each."""
    granted = []
    for _ in range(steps):
        granted.append(b.step())
        b.scheduler.clock.advance(1.0)
    return granted


def test_the_earliest_deadline_is_served_first(edf: Any) -> None:
    b = edf()
    for name, deadline in (("late", 30.0), ("none", None), ("early", 10.0)):
        b.add(name, 4, 2, deadline=deadline)
    order = [next(iter(granted)) for granted in run(b, 6)]
    assert order == ["early", "early", "late", "late", "none", "none"]


def test_who_is_lost_while_waiting_goes_behind(edf: Any) -> None:
    """B can be done by 7 only if it begins by 4; A runs until 5, so C is next."""
    b = edf()
    b.add("A", 4, 5, deadline=6.0)
    b.add("B", 4, 3, deadline=7.0)
    b.add("C", 4, 3, deadline=9.0)
    order = [next(iter(granted)) for granted in run(b, 11)]
    assert order == ["A"] * 5 + ["C"] * 3 + ["B"] * 3


def test_who_is_lost_while_running_pauses_for_one_that_is_not(edf: Any) -> None:
    """A is one second late because of a slow step; it pauses, and ends when B is done."""
    b = edf()
    a = b.add("A", 4, 5, deadline=5.0)
    b.add("B", 4, 3, deadline=12.0)
    assert run(b, 2) == [{"A": 4}, {"A": 1}]
    b.scheduler.clock.advance(1.0)
    assert run(b, 3) == [{"B": 4}, {"B": 1}, {"B": 1}]
    assert run(b, 3) == [{"A": 1}] * 3
    assert a.num_recomputed_tokens == 0


def test_one_that_is_served_in_time_is_never_moved(edf: Any) -> None:
    """Its alarm rings before each of its tokens, and each time it can still make it."""
    b = edf()
    b.add("A", 4, 5, deadline=5.0)
    b.add("B", 4, 5, deadline=20.0)
    assert [next(iter(granted)) for granted in run(b, 10)] == ["A"] * 5 + ["B"] * 5


class Plain(SchedulingPolicy):
    """Earliest deadline first, and nothing else."""

    name = "plain-edf"

    def key(self, request: Any) -> float:
        return float(request.deadline)


def test_overpolicy_bench_costs_few_deadlines(edf: Any, make_bench: Any) -> None:
    """Each could be met alone; plain EDF would run one lost request after the other."""

    def met(b: Any) -> int:
        deadlines = {f"r{i}": 2.0 * i + 9 for i in range(40)}
        for name, deadline in deadlines.items():
            b.add(name, 4, 4, deadline=deadline)
        ends: dict[str, float] = {}
        while b.scheduler.has_unfinished:
            run(b, 1)
            for name in b.finished:
                ends.setdefault(name, b.scheduler.clock.now())
        return sum(ends[name] <= deadline for name, deadline in deadlines.items())

    plugin = make_plugin(policy=[Plain])
    plain = make_bench(plugins=[plugin], policy="plain-edf", max_num_seqs=1)
    assert met(plain) < 8
    assert met(edf()) >= 20


def test_who_is_lost_while_set_aside_returns_to_its_new_place(edf: Any) -> None:
    """A gate skips B until a key; when that comes B is lost, and C goes first."""
    b = edf(plugins=[fakes], sections={"gate": [{"use": "hint"}]})
    b.add("B", 4, 3, deadline=5.0, hints={"skip": "door"})
    assert run(b, 1) == [{}]
    b.add("A", 4, 3, deadline=30.0)
    b.add("C", 4, 3, deadline=40.0)
    assert run(b, 3) == [{"A": 4}, {"A": 1}, {"A": 1}]
    (gate,) = b.scheduler.components.gates
    gate.open("door")
    order = [next(iter(granted)) for granted in run(b, 6)]
    assert order == ["C"] * 3 + ["B"] * 3
