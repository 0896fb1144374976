"""Waiting requests: in the policy's queue, deferred until a key, or waiting for one."""

from __future__ import annotations

from batchwright.callers.guard import Expected, RequestFault
from batchwright.callers.policy import Policy
from batchwright.queues import Ticket
from batchwright.request import Request, RequestStatus
from batchwright.request_view import RequestView


class WaitingRequests:
    """All requests that do not run, each in exactly one place.

    A request that is deferred, or waits for a key, keeps a ticket to its place in the queue
    and costs nothing until its key comes.

    Args:
        policy: The policy, which has the queue.

    Attributes:
        num_parked: Requests that wait for an event outside.
        num_prompt_tokens: Prompt tokens of requests that have never run.
        new_reasons: Reasons why requests wait, where one changed since the last plan;
            empty: none any more.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._queue = policy.queue
        self._queued = Expected(self._is_queued, "a request that is queued")
        self._aside: dict[str, tuple[str, Ticket]] = {}
        self._by_key: dict[str, dict[str, Request]] = {}
        self._unqueued: dict[str, Request] = {}
        self._passed_over: dict[str, tuple[Request, Ticket]] = {}
        self._short: dict[str, None] = {}
        self._arrivals: dict[str, Request] = {}
        self.num_parked = 0
        self.num_prompt_tokens = 0
        self.new_reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._arrivals)

    @property
    def num_in_queue(self) -> int:
        """Requests that the next scan could look at."""
        num_waiting = len(self._arrivals)
        if self._aside or self._unqueued or self._passed_over:
            return num_waiting - len(self._aside) - len(self._unqueued) - len(self._passed_over)
        return num_waiting

    @property
    def num_outside(self) -> int:
        """Requests that wait for the outside, if nothing runs: for a key, or for a resource."""
        return self.num_parked + len(self._short)

    @property
    def num_unanswered(self) -> int:
        """Preempted requests that a step in flight will still answer."""
        return len(self._unqueued)

    def add(self, request: Request) -> RequestFault | None:
        """Queue a new request.

        Returns:
            The fault if the policy failed on it: it is to be ended then.
        """
        return self._enter_queue(request, self._policy.enqueue(request.view))

    def requeue(self, request: Request) -> RequestFault | None:
        """Queue a preempted request.

        Returns:
            The fault if the policy failed on it: it is to be ended then.
        """
        fault = self._enter_queue(request, self._policy.requeue(request.view))
        if fault is None:
            self.new_reasons[request.request_id] = request.waiting_reason
        return fault

    def await_answer(self, request: Request) -> None:
        """Keep a preempted request out of the queue: a step in flight will answer it."""
        self._enter(request)
        self._unqueued[request.request_id] = request
        self._note(request, "waits for the step in flight that computes it")

    def awaits_answer(self, request: Request) -> bool:
        """Tell whether a request is kept out of the queue."""
        return request.request_id in self._unqueued

    def answered(self, request: Request) -> None:
        """Take such a request out, to be requeued or ended."""
        del self._unqueued[request.request_id]
        del self._arrivals[request.request_id]
        request.waiting_reason = "preempted"

    def park(self, request: Request, key: str, reason: str) -> None:
        """Put a queued request aside until ``signal(key)``."""
        self._put_aside(request, key)
        request.status = RequestStatus.PARKED
        self._note(request, reason)
        self.num_parked += 1

    def defer(self, request: Request, key: str, reason: str, *, is_short: bool = False) -> None:
        """Put a queued request aside until ``signal(key)``; short ones lack a resource."""
        self._put_aside(request, key)
        if is_short:
            self._short[request.request_id] = None
        self._note(request, reason)

    def pass_over(self, request: Request, reason: str) -> None:
        """Take a queued request out of this scan only."""
        ticket = self._queue.remove(request.view)
        self._passed_over[request.request_id] = (request, ticket)
        self.note_reason(request, reason)

    def note_reason(self, request: Request, reason: str) -> None:
        """Note why a queued request was not admitted by this scan."""
        if request.waiting_reason != reason:
            self._note(request, reason)

    def end_scan(self) -> None:
        """Return those that were passed over to their places."""
        for request, ticket in self._passed_over.values():
            self._queue.restore(request.view, ticket)
        self._passed_over.clear()

    def wake(self, key: str) -> int:
        """Bring back the requests that are deferred until a key, or wait for it.

        Returns:
            The number of requests that came back; an unknown or repeated key brings none.
        """
        waiting = self._by_key.pop(key, {})
        for request in waiting.values():
            self._bring_back(request)
        return len(waiting)

    def wake_all_deferred(self) -> None:
        """Bring back each request that is deferred until some key."""
        for request_id in list(self._aside):
            request = self._arrivals[request_id]
            if request.status is not RequestStatus.PARKED:
                self._forget_key(request)
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
        if request_id in self._unqueued:
            del self._unqueued[request_id]
        elif request_id in self._aside:
            self._forget_aside(request)
        elif self._passed_over.pop(request_id, None) is None:
            self._queue.remove(request.view)
        del self._arrivals[request_id]
        self.new_reasons.pop(request_id, None)
        if request.scheduled_time is None:
            self.num_prompt_tokens -= request.num_prompt_tokens

    def forget(self, request: Request) -> None:
        """Drop what the queue remembers of an ended request."""
        self._queue.forget(request.view)

    def _enter_queue(self, request: Request, fault: RequestFault | None) -> RequestFault | None:
        if fault is None:
            self._enter(request)
        else:
            self.await_answer(request)  # a place to be ended from
        return fault

    def _enter(self, request: Request) -> None:
        self._arrivals[request.request_id] = request
        if request.scheduled_time is None:
            self.num_prompt_tokens += request.num_prompt_tokens

    def _note(self, request: Request, reason: str) -> None:
        request.waiting_reason = reason
        self.new_reasons[request.request_id] = reason

    def _put_aside(self, request: Request, key: str) -> None:
        ticket = self._queue.remove(request.view)
        self._aside[request.request_id] = (key, ticket)
        self._by_key.setdefault(key, {})[request.request_id] = request

    def _bring_back(self, request: Request) -> None:
        _, ticket = self._aside.pop(request.request_id)
        self._short.pop(request.request_id, None)
        if request.status is RequestStatus.PARKED:
            self.num_parked -= 1
            preempted = request.scheduled_time is not None
            request.status = RequestStatus.PREEMPTED if preempted else RequestStatus.WAITING
        self._note(request, "")
        self._queue.restore(request.view, ticket)

    def _forget_aside(self, request: Request) -> None:
        self._forget_key(request)
        del self._aside[request.request_id]
        self._short.pop(request.request_id, None)
        self.num_parked -= request.status is RequestStatus.PARKED

    def _forget_key(self, request: Request) -> None:
        key, _ = self._aside[request.request_id]
        others = self._by_key[key]
        del others[request.request_id]
        if not others:
            del self._by_key[key]

    def _is_queued(self, view: RequestView) -> bool:
        request_id = view.request_id
        return (
            self._arrivals[request_id].view is view
            and request_id not in self._aside
            and request_id not in self._unqueued
            and request_id not in self._passed_over
        )
