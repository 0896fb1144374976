"""Conformance of policies."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Any, ClassVar

from batchwright.queues import KeyedQueue, WindowQueue
from batchwright.queues.base import as_sort_key
from batchwright.request_view import RequestView
from batchwright.scheduler import Scheduler
from batchwright.testing.conformance.serving import ServingConformance
from batchwright.testing.requests import make_request
from batchwright.verdicts import Preempt

NUM_QUIET_STEPS = 20
NUM_WAITING = 60


class PolicyConformance(ServingConformance):
    """Checks of a policy: its keys, its queue, its preemptions, its cost.

    Attributes:
        keeps_places: True if a request that leaves the queue for a moment returns to its own
            place. False for a policy that draws random numbers when a group is queued.
    """

    kind: ClassVar[str] = "policy"
    keeps_places: ClassVar[bool] = True

    def test_keys_are_numbers_and_stable(self) -> None:
        """A key is a number or a tuple of numbers; asked twice it is the same."""
        policy = self._waiting().components.policy
        for request in policy.queue:
            key = policy.key(request)
            as_sort_key(key)
            assert key == policy.key(request), f"the key of {request.request_id} is not stable"

    def test_keys_stay_while_requests_wait(self) -> None:
        """A key that changes is announced to the queue with ``rekey`` before the next step."""
        driver = self.driver(self.scheduler())
        policy = driver.scheduler.components.policy
        arrivals = self.arrivals(5)
        for step in range(40):
            self._arrive(driver, arrivals.get(step, ()))
            self.before_step(driver)
            driver.turn()
            if isinstance(policy.queue, KeyedQueue):
                for request in policy.queue:
                    asked, queued = as_sort_key(policy.key(request)), policy.queue.key_of(request)
                    assert asked == queued, (
                        f"the key of {request.request_id} was {queued} when it was queued, and is "
                        f"{asked} now: keep it in self.ctx.data(request), or call "
                        "self.queue.rekey(request)"
                    )

    def test_queue_holds_each_request_once(self) -> None:
        """Nothing is lost, nothing is doubled, and ``in`` and ``len`` agree."""
        scheduler = self._waiting()
        queue = scheduler.components.policy.queue
        order = list(queue)
        assert sorted(r.request_id for r in order) == sorted(scheduler.requests)
        assert len(order) == len(queue)
        assert all(request in queue for request in order)

    def test_queue_yields_in_the_order_that_it_shows(self) -> None:
        """Looking changes nothing, and taking out follows what iteration promised."""
        queue = self._waiting().components.policy.queue
        first = queue.peek()
        assert queue.peek() is first
        if isinstance(queue, WindowQueue):
            assert first in list(queue)  # what enters the window is scored only then
            return
        order = list(queue)
        assert [queue.pop() for _ in order] == order
        assert queue.pop() is None
        assert len(queue) == 0

    def test_queue_restores_a_request_to_its_own_place(self) -> None:
        """As after a gate has deferred it."""
        queue = self._waiting().components.policy.queue
        chance, order = random.Random(2), list(queue)
        for size in (1, 4, 4, 12, len(order)):
            taken = [(r, queue.remove(r)) for r in chance.sample(order, size)]
            chance.shuffle(taken)
            assert not any(request in queue for request, _ in taken)
            for request, ticket in taken:
                queue.restore(request, ticket)
            assert sorted(map(_id, queue)) == sorted(map(_id, order))
            if self.keeps_places:
                assert list(map(_id, queue)) == list(map(_id, order))

    def test_requeue_puts_a_request_back_once(self) -> None:
        """As after a preemption."""
        policy = self._waiting().components.policy
        before = sorted(map(_id, policy.queue))
        for request in random.Random(3).sample(list(policy.queue), 5):
            policy.queue.remove(request)
            policy.requeue(request)
            assert request in policy.queue
        assert sorted(map(_id, policy.queue)) == before

    def test_running_order_is_of_numbers(self) -> None:
        """``running_key`` answers numbers, the same when asked twice."""
        scheduler = self._running()
        policy = scheduler.components.policy
        for request in scheduler.view.running:
            key = policy.running_key(request)
            as_sort_key(key)
            assert key == policy.running_key(request)

    def test_displacing_goes_one_way(self) -> None:
        """If A may take B's place, B may not take A's: else they would for ever."""
        scheduler = self._running()
        policy = scheduler.components.policy
        requests = [request.view for request in scheduler.requests.values()]
        for one in requests:
            for other in requests:
                there, back = policy.preempts(one, other), policy.preempts(other, one)
                assert isinstance(there, bool)
                assert not (there and back), f"{one.request_id} and {other.request_id}"

    def test_yielding_names_running_requests(self) -> None:
        """``running_to_preempt`` returns Preempt for running requests."""
        spy, scheduler = self.spied()
        self.serve(scheduler, self.arrivals(4))
        for call in spy.of("running_to_preempt"):
            for one in call.answer:
                assert isinstance(one, Preempt)
                assert isinstance(one.request, RequestView)

    def test_accounts_are_hashable(self) -> None:
        """A request is charged to one account."""
        scheduler = self._waiting()
        policy = scheduler.components.policy
        for request in policy.queue:
            account = policy.account(request)
            assert isinstance(account, Hashable)
            hash(account)
            assert account == policy.account(request)

    def test_default_victim_exists(self) -> None:
        """A plugin offers what ``victim = "auto"`` chooses under it."""
        name = self.component.default_victim
        if name:
            self.plugins().find("victim", name)

    def test_steps_cost_nothing_for_requests_that_wait(self) -> None:
        """While nothing changes no request's key is asked for, however many wait."""
        spy, scheduler = self.spied(kv={"num_blocks": 400}, scheduler={"max_num_seqs": 2})
        driver = self.driver(scheduler)
        for number in range(NUM_WAITING):
            driver.add(make_request(f"w{number}", 5, 200, **self.request_fields))
        for _ in range(4):
            driver.turn()
        spy.calls.clear()
        for _ in range(NUM_QUIET_STEPS):
            driver.turn()
        asked = len(spy.of("key"))
        assert asked <= NUM_QUIET_STEPS + NUM_WAITING, (
            f"{asked} keys were asked for in {NUM_QUIET_STEPS} steps in which nothing changed"
        )

    def _waiting(self) -> Scheduler:
        """A scheduler in which requests wait."""
        scheduler = self.scheduler()
        scheduler.pause()
        driver = self.driver(scheduler)
        for requests in self.arrivals(6).values():
            self._arrive(driver, requests)
        return scheduler

    def _running(self) -> Scheduler:
        """A scheduler in which some requests run and others wait."""
        scheduler = self.scheduler()
        driver = self.driver(scheduler)
        for requests in self.arrivals(6).values():
            self._arrive(driver, requests)
        for _ in range(5):
            driver.turn()
        assert scheduler.running
        return scheduler


def _id(request: Any) -> str:
    return str(request.request_id)
