"""The queue in which no request waits for ever: a sorted list, and a clock."""

from __future__ import annotations

from typing import Any

from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright import VirtualClock
from batchwright.queues import Ticket
from batchwright.testing import make_request
from batchwright_plugins.policy.patient_queue import PatientQueue

MAX_WAIT = 10.0


@define
class Shared:
    """The part of a context that the queue reads."""

    clock: VirtualClock

    @property
    def view(self) -> Any:
        return self

    @property
    def now(self) -> float:
        return self.clock.now()


class Bench:
    """The queue and what it should be: a key and a time by name."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.keys: dict[str, int] = {}
        shared: Any = Shared(self.clock)
        self.queue = PatientQueue(lambda r: self.keys[r.request_id], shared, MAX_WAIT)
        self.views = {name: make_request(name, 1).view for name in "ABCDEFGH"}
        self.queued: dict[str, tuple[int, int]] = {}
        self.since: dict[str, float] = {}
        self.orders: dict[str, int] = {}
        self.aside: dict[str, Ticket] = {}

    def ranked(self) -> list[str]:
        now = self.clock.now()
        overdue = [n for n in self.queued if now - self.since[n] > MAX_WAIT]
        overdue.sort(key=lambda name: (self.since[name], self.queued[name][1]))
        others = [name for name in self.queued if name not in overdue]
        return overdue + sorted(others, key=self.queued.__getitem__)

    def do(self, deed: str, name: str, number: int) -> None:
        view = self.views[name]
        if deed == "wait":
            self.clock.advance(float(number))
        elif deed == "add" and name not in self.queued and name not in self.aside:
            self.keys[name] = number
            if name in self.orders:
                self.queue.requeue(view)
            else:
                self.orders[name] = len(self.orders)
                self.queue.add(view)
            self.queued[name] = (number, self.orders[name])
            self.since[name] = self.clock.now()
        elif deed == "rekey" and name in self.queued:
            self.keys[name] = number
            self.queue.rekey(view)
            self.queued[name] = (number, self.queued[name][1])
        elif deed == "remove" and name in self.queued:
            self.aside[name] = self.queue.remove(view)
            self.queued.pop(name)
        elif deed == "restore" and name in self.aside:
            self.queue.restore(view, self.aside.pop(name))
            self.queued[name] = (self.keys[name], self.orders[name])
        elif deed == "pop" and self.queued:
            expected = self.ranked()[0]
            popped = self.queue.pop()
            assert popped is self.views[expected]
            del self.queued[expected]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "rekey", "remove", "restore", "pop", "wait"]),
        st.sampled_from("ABCDEFGH"),
        st.integers(0, 6),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_the_overdue_are_first_and_then_the_smallest_key(steps: Any) -> None:
    bench = Bench()
    for step in steps:
        bench.do(*step)
        expected = bench.ranked()
        assert [view.request_id for view in bench.queue] == expected
        assert len(bench.queue) == len(expected)
        head = bench.queue.peek()
        assert expected[:1] == ([] if head is None else [head.request_id])
        assert all((bench.views[name] in bench.queue) is (name in expected) for name in "ABCDEFGH")


def test_without_a_bound_no_request_is_overdue() -> None:
    clock = VirtualClock()
    shared: Any = Shared(clock)
    queue = PatientQueue(lambda r: r.num_prompt_tokens, shared, None)
    long, short = (make_request(name, size).view for name, size in (("A", 9), ("B", 1)))
    queue.add(long)
    clock.advance(1e12)
    queue.add(short)
    assert list(queue) == [short, long]
