"""Contents of blocks, followed from plans."""

from array import array

from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput
from batchwright.sampling_params import SamplingParams
from batchwright.testing.contents import BlockContents


def plan_of(step_id, tables, starts, num_tokens):
    new = [
        NewRequestData(name, array("I", range(16)), SamplingParams(), table, starts[name])
        for name, table in tables.items()
    ]
    return SchedulerOutput(step_id, new, CachedRequestData(), num_tokens, sum(num_tokens.values()))


def test_block_of_a_third_request_between_void_ones_stays():
    """C has A's block 2, which fails, then Q's block 4, and computes block 5 behind them."""
    contents = BlockContents(4)
    tables = {"A": [1, 2], "Q": [1, 3, 4], "C": [1, 2, 4, 5]}
    for block_id in range(1, 6):
        contents.empty(block_id)
    contents.planned(plan_of(0, {"Q": tables["Q"]}, {"Q": 0}, {"Q": 12}), tables)
    contents.updated(0, [])
    starts, num_tokens = {"A": 4, "C": 12}, {"A": 4, "C": 4}
    computed = {name: tables[name] for name in starts}
    contents.planned(plan_of(1, computed, starts, num_tokens), tables)
    assert [contents.num_written(block_id) for block_id in range(1, 6)] == [4, 4, 4, 4, 4]
    contents.updated(1, ["A"])
    assert [contents.num_written(block_id) for block_id in range(1, 6)] == [4, 0, 4, 4, 0]
    assert contents.first_gap(tables["C"], 12) == 4
    assert contents.first_gap(tables["Q"], 12) is None
