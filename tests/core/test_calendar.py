"""Appointments of requests that follow an epoch, and alarms."""

from hypothesis import given
from hypothesis import strategies as st

from batchwright.calendar import STANDSTILL, Alarms, Calendar, Epoch
from batchwright.testing import make_request


def follower(epoch, name, num_computed_tokens):
    request = make_request(name, 1)
    request.num_computed_tokens = num_computed_tokens
    request.follow(epoch)
    return request


def test_following_an_epoch_keeps_the_count_and_then_advances_with_it():
    epoch = Epoch(5)
    request = follower(epoch, "A", 7)
    assert request.num_computed_tokens == 7
    epoch.value += 3
    assert request.num_computed_tokens == 10
    request.follow(STANDSTILL)
    epoch.value += 3
    assert request.num_computed_tokens == 10
    request.num_computed_tokens = 4
    assert request.num_computed_tokens == 4


DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.integers(0, 5), st.integers(0, 40)),
        st.tuples(st.just("strike"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("appoint"), st.integers(0, 5), st.integers(1, 12)),
        st.tuples(st.just("advance"), st.just(0), st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(deeds=DEEDS, period=st.integers(1, 6), start=st.integers(0, 9))
def test_calendar_agrees_with_looking_at_everybody(deeds, period, start):
    epoch = Epoch(start)
    calendar = Calendar(epoch, period)
    entered, appointed = {}, {}
    for deed, number, count in deeds:
        name = f"r{number}"
        if deed == "enter" and name not in entered:
            entered[name] = follower(epoch, name, count)
            entered[name].running_order = number
            calendar.enter(entered[name])
        elif deed == "strike" and name in entered:
            calendar.strike(entered.pop(name))
        elif deed == "appoint" and name in entered:
            due = entered[name].num_computed_tokens + count
            calendar.appoint(entered[name], due)
            appointed.setdefault(epoch.value + count, []).append(name)
        elif deed == "advance":
            epoch.value += 1
            assert calendar.due() == appointed.pop(epoch.value, [])
            assert calendar.due() == []
        for offset in (-period, -1, 0, 1, period - 1):
            expected = [
                request
                for request in sorted(entered.values(), key=lambda request: request.running_order)
                if (request.num_computed_tokens - offset) % period == 0
            ]
            assert calendar.at_position(offset) == expected


@given(times=st.lists(st.integers(0, 20)), moments=st.lists(st.integers(0, 22)))
def test_alarms_ring_once_in_order_of_time_then_of_setting(times, moments):
    alarms = Alarms()
    for number, time in enumerate(times):
        alarms.set(time, number)
    waiting = sorted(range(len(times)), key=lambda number: (times[number], number))
    for now in moments:
        assert len(alarms) == len(waiting)
        assert alarms.next_time == (times[waiting[0]] if waiting else None)
        due = [number for number in waiting if times[number] <= now]
        assert list(alarms.ring(now)) == due
        waiting = waiting[len(due) :]


def test_alarm_set_while_ringing_rings_too_if_it_is_due():
    alarms = Alarms()
    alarms.set(1, "first")
    rung = []
    for payload in alarms.ring(2):
        rung.append(payload)
        if payload == "first":
            alarms.set(2, "second")
            alarms.set(3, "third")
    assert rung == ["first", "second"]
    assert alarms.next_time == 3


def test_equal_alarms_with_payloads_that_cannot_be_compared():
    alarms = Alarms()
    payloads = [object(), object(), object()]
    for payload in payloads:
        alarms.set(1.0, payload)
    assert list(alarms.ring(1.0)) == payloads
