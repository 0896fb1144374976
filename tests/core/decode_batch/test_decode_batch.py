"""The decode batch against a look at each of its requests."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from batchwright import Request
from batchwright.decode_batch import DecodeBatch
from batchwright.testing import make_request

DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 5), st.integers(1, 40)),
        st.tuples(st.just("leave"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("watch"), st.integers(0, 5), st.integers(1, 12)),
        st.tuples(st.just("advance"), st.just(0), st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def running_request(number: int, num_tokens: int) -> Request:
    """A request that lacks one token, with a timer that is never reached."""
    request = make_request(f"r{number}", num_tokens)
    request.num_computed_tokens = num_tokens - 1
    request.max_total_tokens = 1_000_000
    request.first_token_time = 0.0
    request.running_order = number
    request.timers = [(1_000_000, 0, None, None)]
    return request


@given(deeds=DEEDS, block_size=st.integers(1, 6), lookahead=st.integers(0, 3))
def test_looking_at_all_finds_none_that_the_batch_has_missed(
    deeds: Any, block_size: int, lookahead: int
) -> None:
    running: dict[str, Request] = {}
    batch = DecodeBatch(block_size, lookahead, running, is_enabled=True)
    looks: dict[str, list[int]] = {}
    for deed, number, amount in deeds:
        name = f"r{number}"
        if deed == "join" and name not in running and number > max_order(running):
            running[name] = running_request(number, amount)
            batch.join(running[name])
            looks[name] = []
        elif deed == "leave" and name in running:
            batch.leave(running.pop(name))
        elif deed == "watch" and name in running:
            looks[name].append(running[name].num_computed_tokens + amount)
            batch.watch(running[name], looks[name][-1])
        elif deed == "advance" and running:
            before = [request.num_computed_tokens for request in running.values()]
            step = batch.advance({})
            assert step.requests == list(running.values())
            assert step.data.num_computed_tokens == before
            assert batch.receive(step.requests, [[7]] * len(running)) == []
            found = {
                r.request_id
                for r in running.values()
                if r.num_computed_tokens in looks[r.request_id]
            }
            assert found <= {request.request_id for request in step.watched}
        check_tokens(batch, running, block_size, lookahead)


def max_order(running: dict[str, Request]) -> int:
    return max((request.running_order for request in running.values()), default=-1)


def check_tokens(
    batch: DecodeBatch, running: dict[str, Request], block_size: int, lookahead: int
) -> None:
    tokens = batch.schedule(100, 100, [])
    assert (tokens is None) is (not running)
    if tokens is not None:
        at = {name: r.num_computed_tokens % block_size for name, r in running.items()}
        edges = {0, -lookahead % block_size}
        assert tokens.by_id == dict.fromkeys(running, 1)
        assert [r.request_id for r in tokens.growing] == [n for n in at if at[n] in edges]
        assert [r.request_id for r in tokens.filling] == [n for n in at if at[n] == block_size - 1]


def test_several_steps_at_once_leave_what_single_ones_leave() -> None:
    batches = []
    for steps in ([5], [1] * 5):
        running = {f"r{n}": running_request(n, 10 + n) for n in range(3)}
        batch = DecodeBatch(4, 0, running, is_enabled=True)
        for request in running.values():
            batch.join(request)
        batch.watch(running["r1"], running["r1"].num_computed_tokens + 5)
        watched = [batch.advance_by(num_steps) for num_steps in steps][-1]
        phases = [[request.request_id for request in phase] for phase in batch.phases]
        batches.append((batch.count.value, phases, [request.request_id for request in watched]))
    assert batches[0] == batches[1]
    assert batches[0][2] == ["r1"]


def test_an_answer_counts_only_while_the_batch_is_the_same() -> None:
    running = {f"r{n}": running_request(n, 10) for n in range(2)}
    batch = DecodeBatch(4, 0, running, is_enabled=True)
    for request in running.values():
        batch.join(request)
    step = batch.advance({})
    batch.leave(running["r0"])
    assert batch.receive(step.requests, [[7], [7]]) is None
    assert [request.num_tokens for request in step.requests] == [10, 10]
