"""Earliest deadline first, with those that are lost behind all others."""

from __future__ import annotations

from typing import Any

import pytest
from batchwright.plugin import SchedulingPolicy

from batchwright.exceptions import ConfigError
from batchwright.testing import fakes, make_plugin


@pytest.fixture
def edf(policy_bench: Any) -> Any:
    def make(**options: Any) -> Any:
        return policy_bench("edf", {"decode_time": 1.0}, max_num_seqs=1, **options)

    return make


def test_the_earliest_deadline_is_served_first(edf: Any) -> None:
    b = edf()
    for name, deadline in (("late", 30.0), ("none", None), ("early", 10.0)):
        b.add(name, 4, 2, deadline=deadline)
    order = [next(iter(granted)) for granted in b.run(6)]
    assert order == ["early", "early", "late", "late", "none", "none"]


def test_who_is_lost_while_waiting_goes_behind(edf: Any) -> None:
    """B can be done by 7 only if it begins by 4; A runs until 5, so C is next."""
    b = edf()
    b.add("A", 4, 5, deadline=6.0)
    b.add("B", 4, 3, deadline=7.0)
    b.add("C", 4, 3, deadline=9.0)
    order = [next(iter(granted)) for granted in b.run(11)]
    assert order == ["A"] * 5 + ["C"] * 3 + ["B"] * 3


def test_who_is_lost_while_running_pauses_for_one_that_is_not(edf: Any) -> None:
    """A is one second late because of a slow step; it pauses, and ends when B is done."""
    b = edf()
    a = b.add("A", 4, 5, deadline=5.0)
    b.add("B", 4, 3, deadline=12.0)
    assert b.run(2) == [{"A": 4}, {"A": 1}]
    b.scheduler.clock.advance(1.0)
    assert b.run(3) == [{"B": 4}, {"B": 1}, {"B": 1}]
    assert b.run(3) == [{"A": 1}] * 3
    assert a.num_recomputed_tokens == 0


def test_one_that_is_served_in_time_is_never_moved(edf: Any) -> None:
    """Its alarm rings before each of its tokens, and each time it can still make it."""
    b = edf()
    b.add("A", 4, 5, deadline=5.0)
    b.add("B", 4, 5, deadline=20.0)
    assert [next(iter(granted)) for granted in b.run(10)] == ["A"] * 5 + ["B"] * 5


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
            b.run(1)
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
    assert b.run(1) == [{}]
    b.add("A", 4, 3, deadline=30.0)
    b.add("C", 4, 3, deadline=40.0)
    assert b.run(3) == [{"A": 4}, {"A": 1}, {"A": 1}]
    (gate,) = b.scheduler.components.gates
    gate.open("door")
    order = [next(iter(granted)) for granted in b.run(6)]
    assert order == ["C"] * 3 + ["B"] * 3


@pytest.fixture
def targets(policy_bench: Any) -> Any:
    def make(**options: Any) -> Any:
        given = {"targets": {"chat": 5.0, "batch": 50.0}, "prefill_time": 0.25, **options}
        return policy_bench("edf", given, max_num_seqs=1)

    return make


def test_a_class_has_a_target_for_its_first_token(targets: Any) -> None:
    b = targets()
    b.add("none", 4, 1)
    b.add("batch", 4, 1, slo_class="batch")
    b.add("own", 4, 1, slo_class="batch", deadline=2.0)
    b.add("chat", 4, 1, slo_class="chat")
    assert b.order() == ["own", "chat", "batch", "none"]


def test_others_have_the_default_target(targets: Any) -> None:
    b = targets(default_target=20.0)
    b.add("batch", 4, 1, slo_class="batch")
    b.add("other", 4, 1, slo_class="unknown")
    b.add("none", 4, 1)
    assert b.order() == ["other", "none", "batch"]


def test_who_has_its_first_token_is_lost_no_more(targets: Any) -> None:
    """It was due in 5 s, and answers for 9: it does not pause for one that comes then."""
    b = targets()
    b.add("A", 4, 9, slo_class="chat")
    b.run(7)
    b.add("B", 4, 1, slo_class="chat")
    assert b.run(2) == [{"A": 1}, {"A": 1}]


def test_a_prompt_that_takes_too_long_is_lost_sooner(targets: Any) -> None:
    """At 0.25 s a token, 16 tokens are lost 1 s after their arrival, 4 tokens 4 s after."""
    b = targets()
    b.add("running", 4, 9, slo_class="chat")
    b.run(1)
    b.add("long", 16, 1, slo_class="chat")
    b.add("short", 4, 1, slo_class="chat")
    b.run(3)
    keys = [b.scheduler.components.policy.key(r) for r in b.scheduler.components.policy.queue]
    assert keys == [(0, 6.0), (1, 6.0)]
    assert b.order() == ["running", "short", "long"]


def test_without_relegation_the_lost_stay_first(targets: Any) -> None:
    b = targets(relegate=False)
    b.add("running", 4, 9)
    b.run(1)
    b.add("chat", 4, 1, slo_class="chat")
    b.add("batch", 4, 1, slo_class="batch")
    assert b.order(seconds=1.0) == ["running", "chat", "batch"]


def test_the_lost_wait_for_a_bounded_time_if_so_configured(targets: Any) -> None:
    b = targets(max_wait=15.0)
    b.add("lost", 4, 1, deadline=-1.0)
    begun = b.begins("lost", 30, lambda step: b.add(f"r{step}", 4, 1, slo_class="chat"))
    assert begun[0] == 16


def test_times_are_checked(policy_bench: Any) -> None:
    with pytest.raises(ConfigError, match=r"policy.edf.targets: expected seconds >= 0, got -1.0"):
        policy_bench("edf", {"targets": {"chat": -1.0}})
