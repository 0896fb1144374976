"""Waiting queues against models that are too simple to be wrong."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.queues import GroupedQueue, KeyedQueue, WindowQueue, as_sort_key
from batchwright.testing import make_request

NAMES = st.sampled_from([f"r{number}" for number in range(9)])
KEYS = st.one_of(st.integers(-2, 2), st.sampled_from([0.5, -0.5, math.inf]))
DEEDS = ("add", "peek", "pop", "remove", "restore", "requeue", "put_first", "rekey", "forget")
STEPS = st.lists(st.tuples(st.sampled_from(DEEDS), NAMES, KEYS), max_size=60)


class Model:
    """A queue as a list of (order, name), with the keys that hold now.

    Args:
        rank: Sort key of a (name, order) pair; smallest is served first.
    """

    def __init__(self):
        self.orders = {}
        self.first_orders = {}
        self.tickets = {}
        self.next_order = 0
        self.next_front = -1

    def insert(self, name, order):
        self.orders[name] = order

    def new_order(self):
        self.next_order += 1
        return self.next_order - 1


class Bench:
    """Does the same to a queue and to a model, and compares what can be seen.

    Args:
        make: Makes the queue from the dict of keys by name.
        ranked: The names in serving order, from the model and the keys.
        num_first: How many of `first` are compared. A window refills as it is served, so
            what it serves second need not be what it lists second: there only one is.
    """

    def __init__(self, make, ranked, rekey=None, num_first=3):
        self.num_first = num_first
        self.keys = {}
        self.placed = {}
        self.queue = make(self.keys)
        self.ranked = ranked
        self.model = Model()
        self.views = {f"r{n}": make_request(f"r{n}", 1).view for n in range(9)}
        self.rekey_call = rekey

    def do(self, deed, name, key):
        getattr(self, deed)(name, key)
        expected = self.ranked(self)
        assert len(expected) == len(self.queue)
        assert expected == [view.request_id for view in self.queue]
        head = self.queue.peek()
        assert expected[:1] == ([] if head is None else [head.request_id])
        first = [view.request_id for view in self.queue.first(self.num_first)]
        assert expected[: self.num_first] == first
        assert expected == [view.request_id for view in self.queue]
        for other, view in self.views.items():
            assert (other in self.model.orders) is (view in self.queue)

    def add(self, name, key):
        if name in self.model.orders or name in self.model.first_orders:
            return
        self.keys[name] = key
        order = self.model.new_order()
        self.model.first_orders[name] = order
        self.queue.add(self.views[name])
        self.place(name, order)

    def place(self, name, order):
        self.placed[name] = self.keys[name]
        self.model.orders[name] = order
        self.model.tickets.pop(name, None)

    def peek(self, name, key):
        assert (self.queue.peek() is None) is (not self.model.orders)

    def pop(self, name, key):
        expected = self.ranked(self)
        popped = self.queue.pop()
        assert (expected[0] if expected else None) == (popped and popped.request_id)
        if popped is not None:
            del self.model.orders[popped.request_id]

    def remove(self, name, key):
        if name not in self.model.orders:
            with pytest.raises(KeyError):
                self.queue.remove(self.views[name])
            return
        ticket = self.queue.remove(self.views[name])
        self.model.tickets[name] = ticket, self.model.orders.pop(name), self.placed[name]

    def restore(self, name, key):
        if name in self.model.tickets:
            ticket, order, placed = self.model.tickets.pop(name)
            self.queue.restore(self.views[name], ticket)
            self.model.orders[name] = order
            self.placed[name] = placed

    def requeue(self, name, key):
        if name in self.model.orders or name not in self.model.first_orders:
            return
        self.keys[name] = key
        self.queue.requeue(self.views[name])
        self.place(name, self.model.first_orders[name])

    def put_first(self, name, key):
        if name in self.model.orders or name not in self.model.first_orders:
            return
        self.keys[name] = key
        self.queue.put_first(self.views[name])
        self.place(name, self.model.next_front)
        self.model.next_front -= 1

    def rekey(self, name, key):
        if self.rekey_call is not None and name in self.model.orders:
            self.keys[name] = key
            self.rekey_call(self.queue, self.views[name])
            self.placed[name] = key
        elif self.rekey_call is not None and name in self.model.tickets:
            # Taken out for a while: the new key counts when it is back.
            self.keys[name] = key
            self.rekey_call(self.queue, self.views[name])
            ticket, order, _ = self.model.tickets[name]
            self.model.tickets[name] = ticket, order, key

    def forget(self, name, key):
        if name not in self.model.orders:
            self.queue.forget(self.views[name])
            self.model.first_orders.pop(name, None)
            self.model.tickets.pop(name, None)


def by_key(bench):
    return sorted(bench.model.orders, key=lambda n: (bench.placed[n], bench.model.orders[n]))


@settings(max_examples=300, deadline=None)
@given(steps=STEPS)
def test_keyed_queue_is_a_sorted_list(steps):
    bench = Bench(
        lambda keys: KeyedQueue(lambda request: keys[request.request_id]),
        by_key,
        rekey=lambda queue, view: queue.rekey(view),
    )
    for step in steps:
        bench.do(*step)


def by_window(size):
    def ranked(bench):
        arrival = sorted(bench.model.orders, key=lambda name: bench.model.orders[name])
        window = sorted(
            arrival[:size], key=lambda name: (-bench.keys[name], bench.model.orders[name])
        )
        return window + arrival[size:]

    return ranked


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, size=st.integers(1, 5))
def test_window_queue_serves_the_best_of_the_first(steps, size):
    bench = Bench(
        lambda keys: WindowQueue(lambda request: keys[request.request_id], size),
        by_window(size),
        rekey=lambda queue, view: None,
        num_first=1,
    )
    for step in steps:
        bench.do(*step)


class GroupBench:
    """The model of a grouped queue: a dict of groups, looked through at every peek."""

    def __init__(self):
        self.group_keys = {"a": 0, "b": 0, "c": 0}
        self.member_keys = {}
        self.groups = {}
        self.members = {}
        self.next_rank = self.next_order = 0
        self.views = {f"r{n}": make_request(f"r{n}", 1).view for n in range(9)}
        self.queue = GroupedQueue(
            lambda request: self.group_of(request.request_id),
            lambda group: self.group_keys[group],
            lambda request: self.member_keys[request.request_id],
        )

    @staticmethod
    def group_of(name):
        return "abc"[int(name[1:]) % 3]

    def ranked(self):
        return sorted(
            self.members, key=lambda name: (*self.groups[self.group_of(name)], *self.members[name])
        )

    def do(self, deed, name, key):
        group = self.group_of(name)
        if deed in ("add", "requeue") and name not in self.members:
            self.member_keys[name] = key
            self.queue.add(self.views[name])
            if group not in self.groups:
                self.groups[group] = (self.group_keys[group], self.next_rank)
                self.next_rank += 1
            self.members[name] = (key, self.next_order)
            self.next_order += 1
        elif deed == "rekey":
            self.group_keys[group] = key
            self.queue.rekey_group(group)
            if group in self.groups:
                self.groups[group] = (key, self.groups[group][1])
        elif deed in ("remove", "restore", "pop") and name in self.members:
            taken = self.ranked()[0] if deed == "pop" else name
            ticket = self.queue.remove(self.views[taken])
            if deed == "restore" and len(self.queue) and self.shares_group(taken):
                self.queue.restore(self.views[taken], ticket)
                return
            self.drop(taken)

    def shares_group(self, name):
        return any(o != name and self.group_of(o) == self.group_of(name) for o in self.members)

    def drop(self, name):
        if not self.shares_group(name):
            del self.groups[self.group_of(name)]
        del self.members[name]
        self.queue.forget(self.views[name])


@settings(max_examples=300, deadline=None)
@given(steps=STEPS)
def test_grouped_queue_serves_the_smallest_group(steps):
    bench = GroupBench()
    for step in steps:
        bench.do(*step)
        expected = bench.ranked()
        assert len(expected) == len(bench.queue)
        assert expected == [view.request_id for view in bench.queue]
        head = bench.queue.peek()
        assert expected[:1] == ([] if head is None else [head.request_id])


def test_grouped_queue_requeues_into_the_place_of_the_first_insertion():
    queue = GroupedQueue(lambda request: "g", lambda group: 0)
    first, second = (make_request(name, 1).view for name in "AB")
    queue.add(first)
    queue.add(second)
    queue.remove(first)
    queue.requeue(first)
    assert [first, second] == list(queue)
    queue.remove(second)
    queue.put_first(second)
    assert [second, first] == list(queue)


def test_keyed_queue_rekeys_only_what_it_knows():
    queue = KeyedQueue(lambda request: 0)
    view = make_request("A", 1).view
    with pytest.raises(KeyError):
        queue.rekey(view)
    queue.add(view)
    queue.pop()
    queue.rekey(view)
    queue.forget(view)
    with pytest.raises(KeyError):
        queue.rekey(view)


def test_grouped_queue_sees_keys_that_have_grown():
    """No call is needed: the first group's key is asked for again at each look."""
    keys = {"a": 1, "b": 2, "c": 3}
    queue = GroupedQueue(lambda request: request.request_id, keys.__getitem__)
    a, b, c = (make_request(name, 1).view for name in "abc")
    for view in (c, b, a):
        queue.add(view)
    assert queue.peek() is a
    keys["a"], keys["b"] = 5, 4
    assert queue.peek() is c
    keys["c"] = 6
    assert queue.first(3) == [b, a, c]
    keys["a"] = keys["b"] = 6  # all equal: who was there first
    assert queue.first(3) == [c, b, a]


def test_grouped_queue_keeps_the_place_of_a_group_whose_requests_run():
    queue = GroupedQueue(lambda request: request.request_id, lambda group: 0)
    first, second = (make_request(name, 1).view for name in "AB")
    queue.add(first)
    queue.add(second)
    ticket = queue.remove(first)
    queue.restore(first, ticket)
    assert list(queue) == [first, second]
    queue.remove(first)
    queue.requeue(first)
    assert list(queue) == [first, second]
    queue.remove(first)
    queue.forget(first)
    queue.add(first)
    assert list(queue) == [second, first]


def test_grouped_queue_bears_a_key_that_changes_at_every_look():
    draws = iter(range(1000))
    queue = GroupedQueue(lambda request: request.request_id, lambda group: next(draws))
    views = [make_request(name, 1).view for name in "ABC"]
    for view in views:
        queue.add(view)
    assert queue.peek() in views


def test_members_are_rekeyed_within_their_group():
    keys = {"A": 1, "B": 2}
    queue = GroupedQueue(lambda _: "g", lambda _: 0, lambda request: keys[request.request_id])
    first, second = (make_request(name, 1).view for name in "AB")
    queue.add(first)
    queue.add(second)
    keys["A"] = 3
    queue.rekey(first)
    assert list(queue) == [second, first]
    keys["A"] = math.nan
    with pytest.raises(ValueError, match="NaN"):
        queue.rekey(first)
    assert list(queue) == [second, first]


def test_first_of_a_group_is_known_without_serving_it():
    queue = GroupedQueue(lambda r: r.client, lambda _: 0, lambda r: r.num_prompt_tokens)
    long, short = (make_request(n, p, client="g").view for n, p in (("A", 9), ("B", 3)))
    queue.add(long)
    assert queue.first_of("g") is long
    queue.add(short)
    assert queue.first_of("g") is short
    assert queue.first_of("h") is None


def test_a_failing_key_costs_no_request_its_place():
    """``first`` puts back what it took, whatever happens meanwhile."""
    fails = False

    def group_key(group):
        if fails and group == "B":
            raise RuntimeError("no key")
        return 0

    queue = GroupedQueue(lambda request: request.request_id, group_key)
    views = [make_request(name, 1).view for name in "ABC"]
    for view in views:
        queue.add(view)
    fails = True
    with pytest.raises(RuntimeError, match="no key"):
        queue.first(3)
    fails = False
    assert list(queue) == views


class Counted(float):
    """A number that counts how often it is compared."""

    count = 0

    def __lt__(self, other):
        Counted.count += 1
        return float.__lt__(self, other)

    def __eq__(self, other):
        Counted.count += 1
        return float.__eq__(self, other)

    __hash__ = float.__hash__


def scattered(number, count):
    return number * 7919 % count


def comparisons(make, count):
    """Comparisons an operation, of adding, removing half, and popping the others."""
    calls = [0]

    def key(request):
        calls[0] += 1
        return Counted(scattered(int(request.request_id), 10007))

    queue = make(key)
    views = [make_request(str(number), 1).view for number in range(count)]
    Counted.count = 0
    for view in views:
        queue.add(view)
    for number in range(count // 2):
        queue.remove(views[scattered(number, count)])
    while queue.pop() is not None:
        pass
    return Counted.count / (2 * count), calls[0]


@pytest.mark.parametrize(
    "make",
    [KeyedQueue, lambda key: GroupedQueue(lambda request: "g", lambda group: 0, key)],
    ids=["keyed", "grouped"],
)
def test_operations_cost_no_more_than_the_logarithm(make):
    """Ten times as many waiting requests cost each operation a few comparisons more."""
    few, _ = comparisons(make, 2_000)
    many, num_keys = comparisons(make, 20_000)
    assert many < 4 * math.log2(20_000)
    assert many < few + 4 * math.log2(10)
    assert num_keys == 20_000


def test_what_waits_behind_a_window_is_not_scored():
    """A look costs one score for each request in the window, whatever waits."""
    scored = []
    queue = WindowQueue(lambda request: scored.append(request) or 0, 8)
    for number in range(1000):
        queue.add(make_request(str(number), 1).view)
    scored.clear()
    queue.peek()
    assert len(scored) == 8


def test_window_holds_at_least_one():
    with pytest.raises(ValueError, match="at least 1 request, not 0"):
        WindowQueue(lambda request: 0, 0)


def test_failing_key_leaves_the_queue_unchanged():
    def key(request):
        if request.request_id == "bad":
            return "no number"
        return 0

    queue = KeyedQueue(key)
    good, bad = make_request("good", 1).view, make_request("bad", 1).view
    queue.add(good)
    with pytest.raises(TypeError, match="number or a tuple of numbers"):
        queue.add(bad)
    assert [good] == list(queue)
    assert bad not in queue


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("x", TypeError),
        (None, TypeError),
        (True, TypeError),
        (math.nan, ValueError),
        ((1, "x"), TypeError),
        ((1, math.nan), ValueError),
        ([1], TypeError),
    ],
)
def test_keys_without_a_total_order_are_refused(key, error):
    with pytest.raises(error):
        as_sort_key(key)


def test_equal_keys_are_served_in_insertion_order_whatever_their_type():
    keys = {"A": 0, "B": 0.0, "C": (0,), "D": (0.0,)}
    queue = KeyedQueue(lambda request: keys[request.request_id])
    for name in keys:
        queue.add(make_request(name, 1).view)
    assert list("ABCD") == [queue.pop().request_id for _ in range(4)]


def test_key_of_a_queued_request():
    queue = KeyedQueue(lambda request: (1, 2))
    view = make_request("A", 1).view
    queue.add(view)
    assert queue.key_of(view) == (1, 2)
    queue.remove(view)
    with pytest.raises(KeyError):
        queue.key_of(view)
