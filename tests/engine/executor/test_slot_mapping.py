"""Slots of the KV of one mixed step: a chunk, a decode, and drafts to verify.

The batch is a published picture of 262 tokens, with blocks of 16. Where it slips, the test
says which slots are right, and why.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest
import torch

from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput
from batchwright.sampling_params import SamplingParams
from batchwright.testing.attention import Case
from batchwright_engine.attention.paged_cache import PagedCache
from batchwright_engine.attention.step_layout import StepLayout, unused_slots
from batchwright_engine.executor.input_batch import InputBatch
from batchwright_engine.executor.request_table import RequestTable

BLOCK = 16
A_OLD, A_NEW = list(range(100, 116)), [7, 13, *range(20, 34)]
TABLES = {"A": A_OLD + A_NEW, "B": [*range(40, 71), 3], "C": [5, 9]}


def new(name: str, num_prompt: int, num_outputs: int, computed: int, table: list[int]) -> Any:
    """A request that was computed up to a place before: everything of it, at once."""
    prompt, outputs = array("I", range(num_prompt)), array("I", range(num_outputs))
    return NewRequestData(name, prompt, SamplingParams(), table, computed, outputs)


def mixed_step(tables: dict[str, list[int]], computed_of_b: int = 511) -> SchedulerOutput:
    """A goes on from 256 of 700 tokens, B decodes, C verifies four drafts from token 12 on."""
    return SchedulerOutput(
        step_id=0,
        scheduled_new_reqs=[
            new("A", 700, 0, 256, tables["A"]),
            new("B", computed_of_b, 1, computed_of_b, tables["B"]),
            new("C", 12, 1, 12, tables["C"]),
        ],
        scheduled_cached_reqs=CachedRequestData(),
        num_scheduled_tokens={"A": 256, "B": 1, "C": 5},
        total_num_scheduled_tokens=262,
        scheduled_draft_token_ids={"C": [91, 92, 93, 94]},
    )


def applied(plan: SchedulerOutput) -> tuple[RequestTable, Any, dict[str, str]]:
    """A table that has taken up the plan's requests, what it computes, and what it cannot."""
    table = RequestTable(1000, (), 0, BLOCK)
    for data in plan.scheduled_new_reqs:
        table.add(data)
    return table, *table.apply(plan)


def batch_of(plan: SchedulerOutput) -> InputBatch:
    table, grants, errors = applied(plan)
    assert errors == {}
    return InputBatch.build(table, grants, BLOCK, torch.device("cpu"))


def test_each_token_has_the_slot_of_its_position() -> None:
    """A fills blocks 7, 13 and fourteen more; C's last draft is the first of its next block.

    The picture writes C as slots 12 to 16 of block 5, which has slots 0 to 15.
    """
    slots = batch_of(mixed_step(TABLES)).attention.slot_mapping.tolist()
    assert len(slots) == 262
    assert slots[:32] == [*range(112, 128), *range(208, 224)]  # blocks 7 and 13
    assert slots[32:256] == [*range(320, 544)]  # blocks 20 to 33
    assert slots[256] == 63  # slot 15 of block 3
    assert slots[257:] == [92, 93, 94, 95, 144]  # slots 12 to 15 of block 5, slot 0 of 9


def test_rows_of_logits_belong_to_the_decode_and_the_drafts() -> None:
    """The chunk is not the prompt's last: none of its 256 tokens is sampled from."""
    batch = batch_of(mixed_step(TABLES))
    assert batch.attention.query_start_loc.tolist() == [0, 256, 257, 262]
    assert batch.attention.query_lens == [256, 1, 5]
    assert batch.attention.seq_lens == [512, 512, 17]
    assert batch.positions.tolist() == [*range(256, 512), 511, *range(12, 17)]
    assert batch.token_ids.tolist() == [*range(256, 512), 0, 0, 91, 92, 93, 94]
    assert batch.row_starts.tolist() == [0, 0, 1, 6]
    assert batch.logit_index.tolist() == [256, 257, 258, 259, 260, 261]


def test_the_512_tokens_of_the_decode_include_its_own() -> None:
    """With 512 in the cache before, it would begin a block, not fill one."""
    plan = mixed_step({**TABLES, "B": [*TABLES["B"], 8]}, computed_of_b=512)
    assert batch_of(plan).attention.slot_mapping[256].item() == 8 * BLOCK


@pytest.mark.parametrize(
    ("name", "blocks", "error"),
    [
        ("A", [*A_OLD, 7, 13], "its 18 blocks do not hold 512 tokens"),
        ("C", [5], "its 1 blocks do not hold 17 tokens"),
    ],
)
def test_a_table_that_is_too_short_fails_that_request_alone(
    name: str, blocks: list[int], error: str
) -> None:
    """Two blocks hold 32 of the 256 tokens; one block does not reach slot 16."""
    _, grants, errors = applied(mixed_step({**TABLES, name: blocks}))
    assert errors == {name: error}
    assert grants.req_ids == [other for other in "ABC" if other != name]


def test_layers_read_whole_blocks_and_the_begun_one_is_cleared() -> None:
    """Only C begins a block that it does not fill: slots 1 to 15 of block 9 are cleared."""
    batch = batch_of(mixed_step(TABLES)).attention
    spec = Case(requests=[], num_kv_heads=1, block_size=BLOCK).spec
    layout = StepLayout(batch, PagedCache(spec, 116), torch.float32, None)
    assert layout.starts.tolist() == [0, 256, 257, 262]
    assert layout.widths.tolist() == [32, 32, 2]
    assert layout.firsts.tolist() == [0, 0, 0]
    cleared = unused_slots(batch, BLOCK)
    assert cleared is not None
    assert cleared.tolist() == [*range(145, 160)]
    windowed = StepLayout(batch, PagedCache(spec, 116), torch.float32, 100)
    assert windowed.firsts.tolist() == [9, 25, 0]
