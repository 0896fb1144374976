"""Timers at a time."""

from hypothesis import given
from hypothesis import strategies as st

from batchwright.timers import ClockTimers


@given(times=st.lists(st.integers(0, 20)), moments=st.lists(st.integers(0, 22)))
def test_timers_come_due_once_in_order_of_time_then_of_setting(times, moments):
    timers = ClockTimers()
    for number, time in enumerate(times):
        timers.set(time, number)
    waiting = sorted(range(len(times)), key=lambda number: (times[number], number))
    for now in moments:
        assert len(timers.heap) == len(waiting)
        assert timers.next_time == (times[waiting[0]] if waiting else None)
        due = [number for number in waiting if times[number] <= now]
        assert list(timers.take_due(now)) == due
        waiting = waiting[len(due) :]


def test_timer_set_while_others_are_taken_is_taken_too_if_it_is_due():
    timers = ClockTimers()
    timers.set(1, "first")
    taken = []
    for payload in timers.take_due(2):
        taken.append(payload)
        if payload == "first":
            timers.set(2, "second")
            timers.set(3, "third")
    assert taken == ["first", "second"]
    assert timers.next_time == 3


def test_equal_timers_with_payloads_that_cannot_be_compared():
    timers = ClockTimers()
    payloads = [object(), object(), object()]
    for payload in payloads:
        timers.set(1.0, payload)
    assert list(timers.take_due(1.0)) == payloads
