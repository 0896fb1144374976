"""A skip-join multi-level feedback queue decides as FastServe's would."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def mlfq(policy_bench: Any) -> Any:
    def make(**options: Any) -> Any:
        return policy_bench("mlfq", {"quantum": 4, "levels": 3}, max_num_seqs=1, **options)

    return make


def test_a_used_up_quantum_pauses_for_the_level_above(mlfq: Any) -> None:
    """Quanta of 4, 8 tokens: A falls behind C after 4, behind B after 8 more."""
    b = mlfq()
    a = b.add("A", 2, 20)
    assert b.steps(2) == [{"A": 2}, {"A": 1}]
    b.add("B", 5, 4)  # does not fit into the first level: joins the second
    assert b.steps(1) == [{"A": 1}]
    # A has computed 4 tokens: it goes behind B, which waits on the second level already.
    assert b.steps(2) == [{"B": 5}, {"B": 1}]
    b.add("C", 3, 2)
    # C is on the first level. B pauses, and goes on before A, which came later.
    assert b.steps(2) == [{"C": 3}, {"C": 1}]
    assert b.steps(2) == [{"B": 1}, {"B": 1}]
    assert b.steps(4) == [{"A": 1}] * 4
    assert a.num_recomputed_tokens == 0
    b.drain()
    assert {name: len(tokens) for name, tokens in b.outputs.items()} == {"A": 20, "B": 4, "C": 2}


def test_demotion_needs_no_step_that_asks(mlfq: Any) -> None:
    """A token timer does it: without waiting requests none is asked about or moved."""
    b = mlfq()
    policy = b.scheduler.components.policy
    b.add("A", 2, 20)
    levels = []
    for _ in range(14):
        b.step()
        a = b.scheduler.requests["A"]
        levels.append((a.num_computed_tokens, policy.key(a.view)[0]))
    assert [level for _, level in levels] == [0] * 3 + [1] * 8 + [2] * 3
    # It is told at the beginning of the step after the one that computes the token.
    assert levels[3] == (5, 1)
    assert levels[11] == (13, 2)


def test_short_requests_do_not_queue_behind_long_ones(mlfq: Any, make_bench: Any) -> None:
    """Mean completion: lower than in order of arrival, with the same work."""

    def mean_end(b: Any) -> float:
        for i in range(8):
            b.add(f"long{i}" if i % 2 == 0 else f"short{i}", 3, 40 if i % 2 == 0 else 3)
        ends = {}
        while b.scheduler.has_unfinished:
            b.step()
            for name in b.finished:
                ends.setdefault(name, b.scheduler.view.step_id)
        return sum(ends.values()) / len(ends)

    assert mean_end(mlfq()) < 0.8 * mean_end(make_bench(max_num_seqs=1))


@pytest.mark.parametrize(("prompt", "level"), [(1, 0), (4, 0), (5, 1), (8, 1), (9, 2), (500, 2)])
def test_levels_above_are_skipped_by_prompt(mlfq: Any, prompt: int, level: int) -> None:
    b = mlfq()
    request = b.add("r", prompt, 1)
    assert b.scheduler.components.policy.key(request.view)[0] == level


def test_who_waited_too_long_is_next(policy_bench: Any) -> None:
    b = policy_bench("mlfq", {"quantum": 4, "levels": 3, "max_wait": 10.0}, max_num_seqs=1)
    b.add("long", 9, 2)
    begun = b.begins("long", 40, lambda step: b.add(f"short{step}", 3, 1))
    assert begun[0] == 11
