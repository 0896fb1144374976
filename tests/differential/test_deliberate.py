"""Intended differences from vLLM, and the decisions under compat."""

from __future__ import annotations

import pytest
from attrs import evolve

from batchwright import RequestRefusedError
from differential import deliberate
from differential.golden import Golden, stored
from differential.ours import Ours
from differential.play import Step, play
from differential.workload import Workload


def run(workload: Workload, *, compat: bool = False) -> list[Step]:
    setup = evolve(workload.setup, compat=compat)
    return play(workload, Ours(setup), max_steps=100)


def ends(steps: list[Step]) -> dict[str, str]:
    return dict(end for step in steps for end in step.updated.ended)


@pytest.mark.parametrize("compat", [False, True])
def test_request_that_outgrows_the_pool_ends_and_blocks_no_other(compat: bool) -> None:
    """Compat is short of hanging: vLLM neither ends r0 nor serves r1."""
    steps = run(deliberate.KV_CAPACITY.workload, compat=compat)
    assert ends(steps) == {"r0": "length(kv_capacity)", "r1": "length"}


@pytest.mark.parametrize("compat", [False, True])
def test_prompt_larger_than_the_pool_is_refused(compat: bool) -> None:
    with pytest.raises(RequestRefusedError, match="usable ones"):
        run(deliberate.REFUSED.workload, compat=compat)
    without = deliberate.REFUSED.workload.without(frozenset({"r0"}))
    assert ends(run(without, compat=compat)) == {"r1": "length"}


@pytest.mark.parametrize(("compat", "hit"), [(False, 20), (True, 24)])
def test_blocks_that_a_victim_never_computed_are_not_hit(compat: bool, hit: int) -> None:
    steps = run(deliberate.VICTIM_HASHES.workload, compat=compat)
    resumed = [g.admitted for step in steps for g in step.planned.grants if g.resumed]
    assert [hit] == resumed


@pytest.mark.parametrize(("compat", "order"), [(False, ["r2", "r1"]), (True, ["r1", "r2"])])
def test_equals_are_served_in_order_of_insertion(compat: bool, order: list[str]) -> None:
    steps = run(deliberate.EQUAL_PRIORITIES.workload, compat=compat)
    assert order == list(ends(steps))


@pytest.mark.parametrize(("compat", "how"), [(False, "length"), (True, "eos")])
def test_min_tokens_hold_for_every_sampler(compat: bool, how: str) -> None:
    steps = run(deliberate.EARLY_STOP.workload, compat=compat)
    assert {"r0": how} == ends(steps)


@pytest.mark.parametrize(("compat", "preempted"), [(False, []), (True, ["r1"])])
def test_blocks_that_half_computed_prompts_need_are_not_free(
    compat: bool, preempted: list[str]
) -> None:
    steps = run(deliberate.HALF_PROMPTS.workload, compat=compat)
    assert preempted == [name for step in steps for name in step.planned.preempted]
    assert ends(steps) == {"r0": "length", "r1": "length"}


def test_every_case_that_compat_covers_is_recorded() -> None:
    goldens = [Golden.read(path) for path in stored()]
    recorded = {g.workload.family for g in goldens if g.workload.setup.compat}
    assert {case.name for case in deliberate.DELIBERATE if case.matched} <= recorded
