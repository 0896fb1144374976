"""Answers to the decode batch: taken over together, or one by one if one is odd."""

from typing import Any

import pytest

from batchwright import ModelOutput


@pytest.mark.parametrize("odd", ["x", 1.5, -1, None, 2**32])
def test_an_odd_token_ends_its_request_and_no_other_gets_two(make_bench: Any, odd: Any) -> None:
    """Those before it have got theirs already: it is taken back, and given once."""
    b = make_bench()
    for name in "abc":
        b.add(name, 4, 9)
    for _ in range(2):
        b.step()
    scheduler = b.scheduler
    plan = scheduler.schedule()
    assert len(scheduler._state.decode_batch) == 3
    lives = dict(scheduler.requests)
    before = {name: request.num_output_tokens for name, request in lives.items()}
    outputs = scheduler.update_from_output(plan, ModelOutput(["a", "b", "c"], [[7], [odd], [8]]))
    assert list(outputs.finished) == ["b"]
    assert outputs.finished["b"].detail.startswith("the executor answered ")
    assert outputs.req_ids == ["a", "c"]
    grown = {name: r.num_output_tokens - before[name] for name, r in lives.items()}
    assert grown == {"a": 1, "b": 0, "c": 1}
