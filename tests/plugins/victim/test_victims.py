"""Choices of victims when blocks run out."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def under(make_bench: Any) -> Any:
    """A bench under a victim; blocks of 4."""

    def make(victim: str, usable: int = 100, **bench: Any) -> Any:
        sections = {"observer": [{"use": "invariants"}]}
        return make_bench(victim=victim, usable=usable, block_size=4, sections=sections, **bench)

    return make


def choice(b: Any) -> str:
    """Return the victim of the current state."""
    view = b.scheduler.view
    (needy, *_) = view.running
    chosen: str = b.scheduler.components.victim.choose(view.running, needy, view).request_id
    return chosen


def running(bench: Any, **prompts: int) -> None:
    for name, prompt in prompts.items():
        bench.add(name, prompt, 20)
    bench.step()


def test_most_blocks_names_the_longest_and_of_equals_the_last(under: Any) -> None:
    b = under("most-blocks")
    running(b, a=9, b=14, c=13, d=2)
    assert choice(b) == "c"  # 4 blocks each, b and c


def test_least_computed_names_the_shortest_and_of_equals_the_last(under: Any) -> None:
    b = under("least-computed")
    running(b, a=9, b=4, c=4, d=13)
    assert choice(b) == "c"


def test_cost_aware_spares_what_is_shared_and_who_is_nearly_done(under: Any) -> None:
    """8 of s1's 9 tokens are s0's as well: one block for nine tokens."""
    b = under("cost-aware")
    shared = b.tokens(8)
    b.add("s0", [*shared, 1], 20)
    b.add("s1", [*shared, 2], 20)
    b.add("own", 9, 20)
    b.add("done", 9, 2)
    b.step()
    views = {request.request_id: request for request in b.scheduler.view.running}
    worth = b.scheduler.components.victim.worth
    num_own = {name: b.scheduler.view.num_own_blocks(view) for name, view in views.items()}
    assert num_own == {"s0": 1, "s1": 1, "own": 3, "done": 3}
    assert worth(views["s0"]) == worth(views["s1"]) == pytest.approx(1 / 9 * (1 - 1 / 20))
    assert worth(views["own"]) == pytest.approx(3 / 9 * (1 - 1 / 20))
    assert worth(views["done"]) == pytest.approx(3 / 9 * (1 - 1 / 2))
    assert choice(b) == "own"


def test_random_names_every_request_in_time_and_the_same_for_the_same_seed(under: Any) -> None:
    def drawn(seed: int) -> list[str]:
        b = under("random", seed=seed)
        running(b, a=4, b=4, c=4)
        return [choice(b) for _ in range(60)]

    first = drawn(1)
    assert set(first) == {"a", "b", "c"}
    assert first == drawn(1)
    assert first != drawn(2)


@pytest.mark.parametrize("victim", ["most-blocks", "least-computed", "cost-aware", "random"])
def test_under_pressure_every_request_ends(under: Any, victim: str) -> None:
    b = under(victim, usable=13)
    requests = [b.add(f"r{i}", 5 + 7 * i % 13, 12) for i in range(12)]
    b.drain()
    assert {finish.reason for finish in b.finished.values()} == {"length"}
    assert sum(request.num_preemptions for request in requests) > 0


def test_a_victim_pays_what_it_says(under: Any) -> None:
    """The same shortage: the one with least costs least, the one with most frees most."""

    def paid(victim: str) -> tuple[int, int]:
        b = under(victim, usable=12)
        requests = [b.add("long", 24, 16), b.add("short", 3, 16), b.add("middle", 11, 16)]
        b.drain()
        return (
            sum(request.num_preemptions for request in requests),
            sum(request.num_recomputed_tokens for request in requests),
        )

    assert paid("least-computed")[1] < paid("most-blocks")[1]
