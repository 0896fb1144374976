"""Requests give way to a newcomer only when it is certain to be admitted."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.protocols import Gate, Resource
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT, Defer, Stop


def displacing(make_bench: Any, *, plugins: Any = (), **bench: Any) -> Any:
    sections = {
        "policy": {"priority": {"preempts": True}},
        "observer": [{"use": "invariants"}],
        **bench.pop("sections", {}),
    }
    return make_bench(policy="priority", sections=sections, plugins=plugins, **bench)


class Defers(Gate):
    """Answers urgent requests as the test wishes."""

    name = "defers"
    phase, verdict = "pre_filter", Stop("not now")

    def pre_filter(self, request: Any, view: Any) -> Any:
        is_meant = request.priority == 0 and self.phase == "pre_filter"
        return self.verdict if is_meant else ADMIT

    def filter(self, request: Any, need: Any, hit: Any, view: Any) -> Any:
        return self.verdict if request.priority == 0 and self.phase == "filter" else ADMIT


@pytest.mark.parametrize("phase", ["pre_filter", "filter"])
@pytest.mark.parametrize("verdict", [Stop("not now"), Defer(), Defer(until="key")])
def test_a_newcomer_that_a_gate_defers_takes_no_seat(
    make_bench: Any, phase: str, verdict: Any
) -> None:
    gate = type("G", (Defers,), {"phase": phase, "verdict": verdict})
    parts = {"plugins": [make_plugin(gate=[gate])], "sections": {"gate": [{"use": "defers"}]}}
    b = displacing(make_bench, max_num_seqs=1, **parts)
    low = b.add("low", 4, 30, priority=5)
    b.step()
    b.add("high", 4, 2, priority=0)
    assert b.steps(20) == [{"low": 1}] * 20
    assert (low.num_policy_preemptions, low.num_preemptions) == (0, 0)


def test_a_newcomer_that_lacks_a_resource_takes_no_seat(make_bench: Any) -> None:
    class Never(Resource):
        name = "never"

        def reserve(self, request: Any) -> bool:
            return request.priority != 0

        def unreserve(self, request: Any) -> None:
            pass

    sections = {"resource": [{"use": "never"}]}
    b = displacing(
        make_bench, max_num_seqs=1, plugins=[make_plugin(resource=[Never])], sections=sections
    )
    low = b.add("low", 4, 30, priority=5)
    b.step()
    b.add("high", 4, 2, priority=0)
    assert b.steps(20) == [{"low": 1}] * 20
    assert low.num_policy_preemptions == 0


@pytest.mark.parametrize("gates", [[], [{"use": "full-need"}]])
def test_blocks_that_are_not_enough_are_not_taken(make_bench: Any, gates: Any) -> None:
    """9 blocks: equal holds 4, low 2; high needs 6, of which low and the pool give 5."""
    b = displacing(make_bench, block_size=4, usable=9, sections={"gate": gates})
    b.add("equal", 14, 2, priority=0)
    low = b.add("low", 6, 2, priority=5)
    b.step()
    b.add("high", 24, 1, priority=0)
    assert b.step() == {"equal": 1, "low": 1}
    assert (low.num_policy_preemptions, low.num_preemptions) == (0, 0)
    b.drain()


def test_several_give_their_blocks_where_one_is_not_enough(make_bench: Any) -> None:
    b = displacing(make_bench, block_size=4, usable=9)
    lows = [b.add(f"low{i}", 6, 9, priority=5) for i in range(4)]
    b.step()
    b.add("high", 20, 1, priority=0)  # 5 blocks: one is free, two requests give two each
    assert b.step() == {"low2": 1, "low3": 1, "high": 20}
    assert [low.num_policy_preemptions for low in lows] == [1, 1, 0, 0]
    b.drain()


def test_blocks_that_two_share_count_once_both_give_way(make_bench: Any) -> None:
    """Two hold 3 blocks together and 1 each; the newcomer needs all 5."""
    b = displacing(make_bench, block_size=4, usable=5)
    shared = b.tokens(12)
    lows = [b.add(f"low{i}", [*shared, i], 9, priority=5) for i in range(2)]
    b.step()
    b.add("high", 20, 1, priority=0)
    assert b.step() == {"high": 20}
    assert [low.num_preemptions for low in lows] == [1, 1]
    b.drain()


def test_blocks_that_others_share_are_not_counted(make_bench: Any) -> None:
    b = displacing(make_bench, block_size=4, usable=5)
    shared = b.tokens(12)
    b.add("urgent", [*shared, 1], 2, priority=0)
    low = b.add("low", [*shared, 2], 2, priority=5)
    b.step()
    b.add("high", 8, 1, priority=0)  # 2 blocks: low would give only one
    assert b.step() == {"urgent": 1, "low": 1}
    assert low.num_policy_preemptions == 0
    b.drain()


@pytest.mark.parametrize("with_high", [False, True])
def test_blocks_in_flight_are_waited_for_and_no_more_are_taken(
    make_bench: Any, with_high: bool
) -> None:
    """In a pipeline the blocks of one victim come back a step later; a second one stays."""
    b = displacing(make_bench, block_size=4, usable=7, pipeline_depth=2)
    lows = [b.add(f"low{i}", 9, 12, priority=5) for i in range(2)]
    first = b.scheduler.schedule()
    if with_high:
        b.add("high", 12, 1, priority=0)
    b.schedule()
    assert [low.num_policy_preemptions for low in lows] == ([1, 0] if with_high else [0, 0])
    second, b.plan = b.plan, first
    b.update()
    b.schedule()
    assert ("high" in b.plan.num_scheduled_tokens) is with_high
    third, b.plan = b.plan, second
    b.update({})
    b.plan = third


def test_the_budget_of_those_that_give_way_goes_to_the_newcomer(make_bench: Any) -> None:
    b = displacing(make_bench, max_num_seqs=1, budget=8)
    b.add("low", 4, 9, priority=5)
    b.step()
    b.add("high", 8, 2, priority=0)
    assert b.step() == {"high": 8}
    b.drain()


def test_paused_blocks_are_not_taken_for_a_request_that_a_gate_holds(make_bench: Any) -> None:
    gate = type("G", (Defers,), {"phase": "filter"})
    parts = {"plugins": [make_plugin(gate=[gate])], "sections": {"gate": [{"use": "defers"}]}}
    b = displacing(make_bench, max_num_seqs=1, block_size=4, usable=6, **parts)
    low = b.add("low", 8, 9, priority=5)
    b.step()
    b.add("middle", 4, 9, priority=3)
    b.step()
    held = b.kv.block_ids(low.view)
    b.add("high", 20, 1, priority=0)
    assert b.step() == {"middle": 1}
    assert (b.kv.block_ids(low.view), len(held)) == (held, 3)
