"""Waiting requests: in the policy's queue, deferred until a key, or waiting for one."""

from __future__ import annotations

from typing import NamedTuple

from batchwright.callers.guard import Expected
from batchwright.callers.policy import Policy
from batchwright.queues import Ticket
from batchwright.request import Request, RequestStatus
from batchwright.request_view import RequestView


class _Aside(NamedTuple):
    """A place outside the queue.

    Args:
        ticket: The place in the queue; None: a step in flight will answer the request.
        key: The key that ends the wait; None: the end of this scan does.
        is_short: Whether a resource is lacking.
    """

    ticket: Ticket | None
    key: str | None = None
    is_short: bool = False


class WaitingRequests:
    """All requests that do not run, each in exactly one place.

    A request that is deferred, or waits for a key, keeps a ticket to its place in the queue
    and costs nothing until its key comes.

    Args:
        policy: The policy, which has the queue.

    Attributes:
        num_parked: Requests that wait for an event outside.
        num_unanswered: Preempted requests that a step in flight will still answer.
        num_prompt_tokens: Prompt tokens of requests that have never run.
        new_reasons: Reasons why requests wait, where one changed since the last plan;
            empty: none any more.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._queue = policy.queue
        self._queued = Expected(self._is_queued, "a request that is queued")
        self._arrivals: dict[str, Request] = {}
        self._aside: dict[str, _Aside] = {}
        self._by_key: dict[str, dict[str, Request]] = {}
        self._passed_over: dict[str, Request] = {}
        self._num_short = 0
        self.num_parked = 0
        self.num_unanswered = 0
        self.num_prompt_tokens = 0
        self.new_reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._arrivals)

    @property
    def num_in_queue(self) -> int:
        """Requests that the next scan could look at."""
        return len(self._arrivals) - len(self._aside)

    @property
    def num_outside(self) -> int:
        """Requests that wait for the outside, if nothing runs: for a key, or for a resource."""
        return self.num_parked + self._num_short

    def add(self, request: Request) -> None:
        """Queue a new request.

        Raises:
            RequestFault: The policy failed on it; it is not queued.
        """
        self._policy.enqueue(request.view)
        self._enter(request)

    def requeue(self, request: Request) -> None:
        """Queue a preempted request.

        Raises:
            RequestFault: The policy failed on it; it is not queued.
        """
        self._policy.requeue(request.view)
        self._enter(request)
        self.new_reasons[request.request_id] = request.waiting_reason

    def await_answer(self, request: Request) -> None:
        """Keep a request out of the queue: a step in flight will answer it, or it is to end."""
        self._enter(request)
        self._aside[request.request_id] = _Aside(None)
        self.num_unanswered += 1
        self._note(request, "waits for the step in flight that computes it")

    def awaits_answer(self, request: Request) -> bool:
        """Tell whether a request is kept out of the queue."""
        aside = self._aside.get(request.request_id)
        return aside is not None and aside.ticket is None

    def answered(self, request: Request) -> None:
        """Take such a request out, to be requeued or ended."""
        self._leave_aside(request)
        del self._arrivals[request.request_id]
        request.waiting_reason = "preempted"

    def park(self, request: Request, key: str, reason: str) -> None:
        """Put a queued request aside until ``signal(key)``."""
        self.defer(request, key, reason)
        request.status = RequestStatus.PARKED
        self.num_parked += 1

    def defer(self, request: Request, key: str, reason: str, *, is_short: bool = False) -> None:
        """Put a queued request aside until ``signal(key)``; short ones lack a resource."""
        ticket = self._queue.remove(request.view)
        self._aside[request.request_id] = _Aside(ticket, key, is_short)
        self._by_key.setdefault(key, {})[request.request_id] = request
        self._num_short += is_short
        self._note(request, reason)

    def pass_over(self, request: Request, reason: str) -> None:
        """Take a queued request out of this scan only."""
        self._aside[request.request_id] = _Aside(self._queue.remove(request.view))
        self._passed_over[request.request_id] = request
        self.note_reason(request, reason)

    def note_reason(self, request: Request, reason: str) -> None:
        """Note why a queued request was not admitted by this scan."""
        if request.waiting_reason != reason:
            self._note(request, reason)

    def end_scan(self) -> None:
        """Return those that were passed over to their places."""
        for request in list(self._passed_over.values()):
            self._restore(request)

    def wake(self, key: str) -> int:
        """Bring back the requests that are deferred until a key, or wait for it.

        Returns:
            The number of requests that came back; an unknown or repeated key brings none.
        """
        waiting = list(self._by_key.get(key, {}).values())
        for request in waiting:
            self._bring_back(request)
        return len(waiting)

    def wake_all_deferred(self) -> None:
        """Bring back each request that is deferred until some key."""
        for request_id, aside in list(self._aside.items()):
            request = self._arrivals[request_id]
            if aside.key is not None and request.status is not RequestStatus.PARKED:
                self._bring_back(request)

    def head(self) -> Request | None:
        """Return the request that the policy serves next, or None.

        Raises:
            PluginError: The policy's queue failed too often in a row.
        """
        if not self.num_in_queue:
            return None
        view = self._policy.head(self._queued)
        return self.earliest() if view is None else self._arrivals[view.request_id]

    def earliest(self) -> Request | None:
        """Return the queued request that came first, for want of the policy's choice."""
        return next((r for r in self._arrivals.values() if self._is_queued(r.view)), None)

    def remove(self, request: Request) -> None:
        """Take a request out, wherever it is."""
        request_id = request.request_id
        if request_id in self._aside:
            self._leave_aside(request)
        else:
            self._queue.remove(request.view)
        del self._arrivals[request_id]
        self.new_reasons.pop(request_id, None)
        if request.scheduled_time is None:
            self.num_prompt_tokens -= request.num_prompt_tokens

    def forget(self, request: Request) -> None:
        """Drop what the queue remembers of an ended request."""
        self._queue.forget(request.view)

    def _enter(self, request: Request) -> None:
        self._arrivals[request.request_id] = request
        if request.scheduled_time is None:
            self.num_prompt_tokens += request.num_prompt_tokens

    def _note(self, request: Request, reason: str) -> None:
        request.waiting_reason = reason
        self.new_reasons[request.request_id] = reason

    def _bring_back(self, request: Request) -> None:
        self._note(request, "")
        self._restore(request)

    def _restore(self, request: Request) -> None:
        """Return a request to its place in the queue."""
        is_parked = request.status is RequestStatus.PARKED
        ticket = self._leave_aside(request)
        assert ticket is not None
        if is_parked:
            preempted = request.scheduled_time is not None
            request.status = RequestStatus.PREEMPTED if preempted else RequestStatus.WAITING
        self._queue.restore(request.view, ticket)

    def _leave_aside(self, request: Request) -> Ticket | None:
        """Give up a place outside the queue."""
        aside = self._aside.pop(request.request_id)
        if aside.key is not None:
            others = self._by_key[aside.key]
            del others[request.request_id]
            if not others:
                del self._by_key[aside.key]
        self._passed_over.pop(request.request_id, None)
        self._num_short -= aside.is_short
        self.num_parked -= request.status is RequestStatus.PARKED
        self.num_unanswered -= aside.ticket is None
        return aside.ticket

    def _is_queued(self, view: RequestView) -> bool:
        request_id = view.request_id
        return self._arrivals[request_id].view is view and request_id not in self._aside
