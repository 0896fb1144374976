"""Chunks end where blocks end."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def aligned(make_bench: Any) -> Any:
    def make(*before: dict[str, Any], **bench: Any) -> Any:
        limits = [*before, {"use": "block-align"}]
        sections = {"limit": limits, "observer": [{"use": "invariants"}]}
        return make_bench(sections=sections, **bench)

    return make


def test_chunks_are_whole_blocks_but_for_the_last(aligned: Any) -> None:
    """Blocks of 16, a budget of 50: 48, 48, 4; what is left of it goes to the next."""
    b = aligned(budget=50)
    b.add("A", 100, 1)
    assert b.steps(3) == [{"A": 48}, {"A": 48}, {"A": 4}]
    b.add("B", 60, 5)
    b.add("C", 40, 1)
    # 2 tokens fill no block of C, and it would else get none; 38 complete it.
    assert b.steps(3) == [{"B": 48, "C": 2}, {"B": 12, "C": 38}, {"B": 1}]


def test_what_is_cached_is_where_a_chunk_begins(aligned: Any) -> None:
    b = aligned(budget=40)
    shared = b.tokens(32)
    b.add("first", [*shared, 1], 1)
    b.drain()
    b.add("second", shared + b.tokens(60), 1)
    assert b.steps(2) == [{"second": 32}, {"second": 28}]


def test_cuts_of_other_limits_are_aligned(aligned: Any) -> None:
    b = aligned({"use": "long-prefill", "threshold": 40})
    b.add("A", 90, 9)
    b.add("B", 90, 9)
    assert b.steps(3) == [{"A": 32, "B": 32}, {"A": 32, "B": 32}, {"A": 26, "B": 26}]


def test_a_grant_within_a_block_stays(aligned: Any) -> None:
    """A budget of 10 never fills a block of 16; chunks end at its ends where they can."""
    b = aligned(budget=10)
    b.add("A", 40, 1)
    assert b.steps(5) == [{"A": 10}, {"A": 6}, {"A": 10}, {"A": 6}, {"A": 8}]


def test_decodes_are_not_asked_about(aligned: Any) -> None:
    b = aligned()
    b.add("A", 20, 30)
    b.drain()
    assert b.scheduler.components.limits[0].affects_decode is False
    assert len(b.outputs["A"]) == 30
