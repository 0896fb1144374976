"""Requests that follow a count: by their position in a block, and when they are looked at."""

from hypothesis import given
from hypothesis import strategies as st

from batchwright.counters import STANDSTILL, SharedCount
from batchwright.decode_batch.due_requests import NEVER, BlockPhases, DueCounts
from batchwright.testing import make_request


def follower(count, name, num_computed_tokens):
    request = make_request(name, 1)
    request.num_computed_tokens = num_computed_tokens
    request.computed.follow(count)
    return request


def test_following_a_count_keeps_the_count_and_then_advances_with_it():
    count = SharedCount(5)
    request = follower(count, "A", 7)
    assert request.num_computed_tokens == 7
    count.value += 3
    assert request.num_computed_tokens == 10
    request.computed.follow(STANDSTILL)
    count.value += 3
    assert request.num_computed_tokens == 10
    request.num_computed_tokens = 4
    assert request.num_computed_tokens == 4


DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 5), st.integers(0, 40)),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("look at"), st.integers(0, 5), st.integers(1, 12)),
        st.tuples(st.just("advance"), st.just(0), st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(deeds=DEEDS, block_size=st.integers(1, 6), start=st.integers(0, 9))
def test_those_that_are_due_are_those_that_looking_at_all_finds(deeds, block_size, start):
    count = SharedCount(start)
    phases, due = BlockPhases(count, block_size), DueCounts()
    inside, looks = {}, {}
    for deed, number, steps in deeds:
        name = f"r{number}"
        if deed == "insert" and name not in inside:
            inside[name] = follower(count, name, steps)
            inside[name].running_order = number
            phases.insert(inside[name])
        elif deed == "remove" and name in inside:
            phases.remove(inside.pop(name))
        elif deed == "look at" and name in inside:
            due.add(count.value + steps, name)
            looks.setdefault(count.value + steps, []).append(name)
        elif deed == "advance":
            count.value += 1
            assert due.take(count.value) == looks.pop(count.value, [])
            assert due.take(count.value) == []
        for position in (-block_size, -1, 0, 1, block_size - 1):
            expected = [
                request
                for request in sorted(inside.values(), key=lambda request: request.running_order)
                if (request.num_computed_tokens - position) % block_size == 0
            ]
            assert phases.at(position) == expected


def test_distance_is_that_to_a_request_that_is_still_there():
    due = DueCounts()
    for count, name in [(7, "a"), (9, "b"), (12, "c")]:
        due.add(count, name)
    assert due.distance(5, {"b", "c"}.__contains__) == 4
    assert due.distance(9, {"b", "c"}.__contains__) == 3
    assert due.distance(9, set().__contains__) == NEVER
