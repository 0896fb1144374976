"""Calls of the scheduling policy and of its queue."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Final, NamedTuple

from batchwright.callers.fault import Fault, name_of
from batchwright.callers.guard import ANYTHING, YES_OR_NO, Expected, Guard, RequestFault
from batchwright.protocols import SchedulingPolicy
from batchwright.protocols.component import defines
from batchwright.queues import as_sort_key
from batchwright.queues.base import SortKey
from batchwright.request import Request
from batchwright.request_view import RequestView
from batchwright.step_view import StepView
from batchwright.verdicts import Preempt

_HASHABLE: Final = Expected(lambda answer: hash(answer) is not None, "something hashable")


class RunningOrder(NamedTuple):
    """Running requests in the policy's order.

    Args:
        requests: Those that have a key, smallest first.
        failed: Those on which the policy failed.
    """

    requests: list[Request]
    failed: Sequence[tuple[Request, RequestFault]] = ()


class Policy:
    """Asks the policy.

    Faults: those of ``key``, ``requeue``, ``running_key`` and ``account`` belong to the
    request; without the other answers no request yields, and arrival order counts.

    Attributes:
        queue: Its queue.
        orders_running: Whether running requests have an order of their own.
        yields: Whether it names running requests that yield.
        preempts: Whether a waiting request may take the place of a running one.
        keeps_accounts: Whether requests have accounts.
    """

    def __init__(self, policy: SchedulingPolicy, guard: Guard) -> None:
        self._policy = policy
        self._guard = guard
        self.queue = policy.queue
        self.orders_running = defines(policy, SchedulingPolicy.running_key)
        self.yields = defines(policy, SchedulingPolicy.running_to_preempt)
        self.preempts = defines(policy, SchedulingPolicy.preempts)
        self.keeps_accounts = defines(policy, SchedulingPolicy.account)

        @wraps(policy.key)
        def add(request: RequestView) -> bool:
            self.queue.add(request)
            return request in self.queue

        @wraps(policy.requeue)
        def requeue(request: RequestView) -> bool:
            policy.requeue(request)
            return request in self.queue

        @wraps(policy.running_key)
        def running_key(request: RequestView) -> SortKey:
            return as_sort_key(policy.running_key(request))

        @wraps(policy.running_to_preempt)
        def running_to_preempt(view: StepView) -> tuple[Preempt, ...]:
            return tuple(policy.running_to_preempt(view))  # it may be a generator

        self._add, self._requeue = add, requeue
        self._running_key, self._running_to_preempt = running_key, running_to_preempt

    def enqueue(self, request: RequestView) -> RequestFault | None:
        """Queue a new request; if that fails it is not queued, and the fault is returned."""
        return self._queue_by(self._add, request)

    def requeue(self, request: RequestView) -> RequestFault | None:
        """Queue a preempted request; if that fails it is not queued, and the fault is returned."""
        return self._queue_by(self._requeue, request)

    def head(self, is_queued: Expected) -> RequestView | None:
        """Return the request that is served next; None if the queue fails."""
        return self._guard.ask(self._policy, self.queue.peek, is_queued)

    def running_order(self, requests: list[Request]) -> RunningOrder:
        """Return running requests in the order in which they are served."""
        if not self.orders_running:
            return RunningOrder(requests)
        keyed, failed = [], []
        policy, ask, key_of = self._policy, self._guard.ask_about_request, self._running_key
        for request in requests:
            try:
                keyed.append((ask(policy, key_of, ANYTHING, request.view), request))
            except RequestFault as fault:
                failed.append((request, fault))
        return RunningOrder([r for _, r in sorted(keyed, key=lambda pair: pair[0])], failed)

    def to_yield(self, view: StepView) -> Sequence[Preempt]:
        """Return running requests that pause, or release their blocks, for those that wait."""
        running = view.running
        expected = Expected(
            lambda named: all(isinstance(one, Preempt) and one.request in running for one in named),
            "Preempt of running requests",
        )
        return self._guard.ask(self._policy, self._running_to_preempt, expected, view) or ()

    def may_displace(self, waiting: RequestView, running: RequestView) -> bool:
        """Tell whether one request takes the place of another: strictly better only."""
        policy, ask = self._policy, self._guard.ask
        one_way = ask(policy, policy.preempts, YES_OR_NO, waiting, running)
        other_way = ask(policy, policy.preempts, YES_OR_NO, running, waiting)
        return one_way is True and other_way is False

    def account(self, request: RequestView) -> Hashable:
        """Return the account that pays for a request.

        Raises:
            RequestFault: The policy failed on it.
        """
        return self._guard.ask_about_request(self._policy, self._policy.account, _HASHABLE, request)

    def _queue_by(
        self, method: Callable[[RequestView], bool], request: RequestView
    ) -> RequestFault | None:
        try:
            if self._guard.ask_about_request(self._policy, method, ANYTHING, request):
                return None
        except RequestFault as fault:
            return fault
        # It would wait for ever, and nothing would tell.
        name = name_of(self._policy, method)
        return self._guard.about_request(Fault(self._policy, name, "did not queue the request"))
