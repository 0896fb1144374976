"""Steps that published articles on vLLM's scheduler work through, with their numbers.

Where an article slips, the test says which figure is right, and why. Examples that
``test_worked_steps`` has already are not repeated here.
"""

from __future__ import annotations

from typing import Any

import pytest

from batchwright import ModelOutput, Scheduler, SchedulerOutput
from batchwright.testing import (
    Driver,
    ScriptedExecutor,
    ScriptedModel,
    drive,
    make_request,
    prompt_tokens,
    reference_output,
)


class DraftsForOne(ScriptedExecutor):
    """Four drafts, all of them right, for request C alone."""

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        output = super().execute(plan)
        drafts = output.draft_token_ids
        output.draft_token_ids = {name: drafts[name] for name in drafts if name == "C"}
        return output


def make_scheduler(
    *, usable: int = 1000, block_size: int = 16, budget: int = 2048, **sections: Any
) -> Scheduler:
    """A scheduler with the default components, but for the given sections."""
    scheduler = {"max_num_batched_tokens": budget, **sections.pop("scheduler", {})}
    kv = {"num_blocks": usable + 1, "block_size": block_size}
    return Scheduler.from_config({"scheduler": scheduler, "kv": kv, **sections})


def long_prefill(threshold: int) -> list[dict[str, Any]]:
    return [{"use": "long-prefill", "threshold": threshold}]


def drafting(scheduler: Scheduler) -> Driver:
    limits = scheduler.sizes
    options = {"num_draft_tokens": 4, "draft_errors_one_in": 1 << 40}
    executor = DraftsForOne.standalone(limits.num_blocks, limits.block_size, **options)
    return Driver(scheduler, executor)


def free(driver: Driver) -> int:
    return driver.scheduler.kv_manager.num_free_blocks


def tables(plan: SchedulerOutput) -> dict[str, list[int]]:
    """Block tables of the requests that a plan has for the first time."""
    return {new.req_id: new.block_ids for new in plan.scheduled_new_reqs}


def new_blocks(plan: SchedulerOutput) -> dict[str, int]:
    """How many blocks the plan adds to the tables of known requests."""
    cached = plan.scheduled_cached_reqs
    columns = zip(cached.req_ids, cached.new_block_ids, strict=True)
    return {name: len(blocks or ()) for name, blocks in columns}


def test_a_chunk_a_decode_drafts_and_a_new_prompt_share_512_tokens() -> None:
    """A owes 444 tokens: what cuts it to 256 is a cap on long prompts, not the budget."""
    driver = drafting(make_scheduler(budget=512, limit=long_prefill(256)))
    driver.add(make_request("A", 700), make_request("B", 8), make_request("C", 8))
    driver.turn()
    driver.add(make_request("D", 250))
    plan = driver.plan()
    assert list(plan.num_scheduled_tokens.items()) == [("A", 256), ("B", 1), ("C", 5), ("D", 250)]
    assert plan.total_num_scheduled_tokens == 512
    assert {name: len(ids) for name, ids in plan.scheduled_draft_token_ids.items()} == {"C": 4}
    outputs = driver.update()
    found = zip(outputs.req_ids, map(len, outputs.new_token_ids), strict=True)
    assert dict(found) == {"B": 1, "C": 5, "D": 1}
    driver.finish()


def test_without_a_cap_the_long_prompt_takes_all_512_tokens() -> None:
    scheduler = make_scheduler(budget=512)
    run = drive(scheduler, [make_request("A", 700), make_request("B", 8), make_request("C", 8)])
    assert run.recorder.grants[:2] == [{"A": 512}, {"A": 188, "B": 8, "C": 8}]


def test_262_tokens_take_the_blocks_that_their_slots_need() -> None:
    """A needs sixteen new blocks (not two), B none, C a second one.

    B's token is its 512th: it fills slot 15 of the last block; were 512 cached before, it
    would begin another one. C's five tokens stand at positions 12 to 16: a block has slots
    0 to 15, so that the last draft takes slot 0 of the next.
    """
    driver = drafting(make_scheduler(budget=511 + 12 + 256))
    driver.add(make_request("B", 511), make_request("C", 12), make_request("A", 512))
    driver.turn()
    assert driver.recorder.grants == [{"B": 511, "C": 12, "A": 256}]
    plan = driver.plan()
    assert plan.num_scheduled_tokens == {"B": 1, "C": 5, "A": 256}
    assert plan.total_num_scheduled_tokens == 262
    assert new_blocks(plan) == {"B": 0, "C": 1, "A": 16}
    driver.finish()


def trace_of_three_steps(usable: int, *, c_stops: bool = True) -> tuple[Driver, list[int]]:
    """A(p100), B(p200), C(p50), then D(p300) and E(p80); C stops; F(p150) waits.

    Returns:
        The driver before the third step, and C's block table.
    """
    second = reference_output(make_request("C", 50, 2), ScriptedModel())[1]
    stops = {"stop_token_ids": [second]} if c_stops else {}
    c = make_request("C", 50, 40, sampling=stops)
    driver = Driver(make_scheduler(usable=usable))
    driver.add(make_request("A", 100, 40), make_request("B", 200, 40), c)
    plan = driver.plan()
    assert plan.num_scheduled_tokens == {"A": 100, "B": 200, "C": 50}
    block_tables = tables(plan)
    assert {name: len(ids) for name, ids in block_tables.items()} == {"A": 7, "B": 13, "C": 4}
    driver.update()
    driver.add(make_request("D", 300, 40), make_request("E", 80, 40))
    plan = driver.plan()
    # Not five tokens: the two new ones compute their prompts beside three decodes.
    assert plan.num_scheduled_tokens == {"A": 1, "B": 1, "C": 1, "D": 300, "E": 80}
    assert {name: len(ids) for name, ids in tables(plan).items()} == {"D": 19, "E": 5}
    assert free(driver) == usable - (7 + 13 + 4 + 19 + 5)
    driver.update()
    assert driver.recorder.finished == ({"C": f"stop/stop_token:{second}"} if c_stops else {})
    driver.add(make_request("F", 150, 40))
    return driver, block_tables["C"]


def test_f_enters_on_the_blocks_of_c() -> None:
    """E, full with 80 tokens, takes C's last block, F the other three and seven more.

    C's last block is taken first: it is not full, and so not cached. A request is admitted
    on the blocks of its prompt: with ``max_tokens`` counted, as the article's formula has
    it, they would be 9, 15, 6, 22, 8 and 12.
    """
    driver, blocks_of_c = trace_of_three_steps(55)
    assert free(driver) == 7 + 4
    plan = driver.plan()
    assert plan.num_scheduled_tokens == {"A": 1, "B": 1, "D": 1, "E": 1, "F": 150}
    assert plan.scheduled_cached_reqs.new_block_ids == [None, None, None, blocks_of_c[3:]]
    assert len(tables(plan)["F"]) == 10
    assert set(blocks_of_c[:3]) <= set(tables(plan)["F"])
    assert free(driver) == 0
    driver.finish()


@pytest.mark.parametrize(("usable", "c_stops"), [(54, True), (55, False), (58, False)])
def test_f_waits_for_its_tenth_block(usable: int, c_stops: bool) -> None:
    """After E's block nine are free in a pool of 54 or 58, six in one of 55 with C in it."""
    driver, _ = trace_of_three_steps(usable, c_stops=c_stops)
    assert "F" not in driver.plan().num_scheduled_tokens
    driver.finish()


def test_f_enters_beside_c_in_a_pool_of_59_blocks() -> None:
    driver, _ = trace_of_three_steps(59, c_stops=False)
    assert driver.plan().num_scheduled_tokens["F"] == 150
    assert free(driver) == 0
    driver.finish()


def decodes_and_a_new_prompt(usable: int) -> list[tuple[list[str], list[str], int]]:
    """Steps 1 to 7 of A(p31), B(p30), C(p30), decoding, and D(p60), which arrives.

    Returns:
        By step, who is planned, who is preempted, and the free blocks.
    """
    driver = Driver(make_scheduler(usable=usable))
    driver.add(*(make_request(name, size, 40) for name, size in (("A", 31), ("B", 30), ("C", 30))))
    driver.turn()
    assert free(driver) == usable - 6
    driver.add(make_request("D", 60, 20))
    steps = []
    for _ in range(7):
        plan = driver.plan()
        steps.append((list(plan.num_scheduled_tokens), plan.preempted_req_ids, free(driver)))
        driver.update()
    driver.finish()
    return steps


def test_seven_free_blocks_last_until_d_itself_needs_a_fifth() -> None:
    """D takes four, A one, B and C the last two: no request is preempted in step 3.

    The article has C fail there although a block is left. C fails if six are free (below),
    or if another request holds one (W5, where D can come back in step 4).
    """
    abc, abcd = ["A", "B", "C"], ["A", "B", "C", "D"]
    assert decodes_and_a_new_prompt(6 + 7) == [
        (abcd, [], 3),
        (abcd, [], 2),
        (abcd, [], 0),
        (abcd, [], 0),
        (abcd, [], 0),
        (abc, ["D"], 4),
        (abc, [], 4),
    ]


def test_with_six_free_blocks_c_fails_in_step_3_and_d_stays_out() -> None:
    """D needs four blocks for its 62 tokens, three of them cached: three are free in all."""
    abc, abcd = ["A", "B", "C"], ["A", "B", "C", "D"]
    assert decodes_and_a_new_prompt(6 + 6) == [
        (abcd, [], 2),
        (abcd, [], 1),
        (abc, ["D"], 3),
        *[(abc, [], 3)] * 4,
    ]


def test_requests_join_and_leave_between_steps() -> None:
    """A ends with step 3; D joins at step 4, E at step 5, with which C ends."""
    arrivals = {
        0: [make_request("A", 8, 3), make_request("B", 8, 9), make_request("C", 8, 5)],
        3: [make_request("D", 8, 9)],
        4: [make_request("E", 8, 9)],
    }
    run = drive(make_scheduler(), arrivals)
    steps = ["".join(granted) for granted in run.recorder.grants]
    assert steps[:6] == ["ABC", "ABC", "ABC", "BCD", "BCDE", "BDE"]


def test_a_seat_is_taken_as_soon_as_its_owner_ends() -> None:
    """Outputs of 12, 6 and 4 tokens on three seats: D is served in step 5, not step 13."""
    requests = [make_request(*row) for row in (("A", 8, 12), ("B", 8, 6), ("C", 8, 4))]
    run = drive(make_scheduler(scheduler={"max_num_seqs": 3}), [*requests, make_request("D", 8, 2)])
    steps = ["".join(granted) for granted in run.recorder.grants]
    assert steps == ["ABC"] * 4 + ["ABD"] * 2 + ["A"] * 6


def test_a_chunk_of_1537_tokens_takes_97_blocks() -> None:
    """B owes 2,048 and 4,095 are left of the budget: a cap of 1,537 must be set."""
    seats, limit = {"max_num_seqs": 2}, long_prefill(1537)
    driver = Driver(make_scheduler(budget=4096, scheduler=seats, limit=limit))
    driver.add(make_request("A", 8))
    driver.turn()
    driver.add(*(make_request(name, 2048) for name in "BCDE"))
    plan = driver.plan()
    assert plan.num_scheduled_tokens == {"A": 1, "B": 1537}
    assert plan.total_num_scheduled_tokens == 1538
    assert new_blocks(plan) == {"A": 0}
    assert len(tables(plan)["B"]) == 97
    assert driver.scheduler.num_waiting == 3
    driver.finish()


def test_2048_of_3000_tokens_hit_and_952_are_computed() -> None:
    shared = prompt_tokens("X", 2048)
    driver = Driver(make_scheduler())
    driver.add(make_request("X", shared, 1))
    driver.turn()
    driver.add(make_request("Y", [*shared, *prompt_tokens("Y", 952)]))
    plan = driver.plan()
    assert [new.num_computed_tokens for new in plan.scheduled_new_reqs] == [2048]
    assert plan.num_scheduled_tokens == {"Y": 952}
    driver.finish()


def test_a_chunk_without_blocks_sends_its_own_request_back() -> None:
    """C, the tail, is the victim of its own chunk, and D is not looked at in that step.

    In the next one C goes on with B's block and with 12 tokens that are still cached.
    (Only without ``full-need``, which does not let C begin: 5 blocks, and 4 are free.)
    """
    driver = Driver(make_scheduler(usable=6, block_size=4, budget=16, gate=[]))
    driver.add(make_request("A", 1, 6), make_request("B", 1, 3))
    driver.turn()
    driver.add(make_request("C", 20), make_request("D", 12))
    driver.turn()
    plan = driver.plan()
    assert plan.num_scheduled_tokens == {"A": 1, "B": 1}
    assert plan.preempted_req_ids == ["C"]
    assert free(driver) == 4
    driver.update()
    plan = driver.plan()
    assert plan.num_scheduled_tokens == {"A": 1, "C": 8}
    assert plan.scheduled_cached_reqs.num_computed_tokens == [3, 12]
    assert free(driver) == 0
    assert driver.recorder.grants == [
        {"A": 1, "B": 1},
        {"A": 1, "B": 1, "C": 14},
        {"A": 1, "B": 1},
        {"A": 1, "C": 8},
    ]
