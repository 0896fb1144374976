"""The waiting queue of vLLM's scheduler in the order of a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.request_queue import RequestQueue

from batchwright.callers.guard import Expected, RequestFault
from batchwright.callers.policy import Policy
from batchwright.queues import Ticket
from batchwright.request_view import RequestView
from batchwright_vllm.served_request import VllmRequest

if TYPE_CHECKING:
    from vllm.v1.request import Request

__all__ = ["PolicyQueue"]


class PolicyQueue(RequestQueue):
    """Serves waiting requests as a policy orders them.

    Requests that are deferred until a key, or wait for it, are set aside, and are not seen by
    scans before the key is signalled. The request that ``peek_request`` returned stays the
    first one until it is popped, even if its key moves meanwhile.

    Args:
        policy: The policy, which has the queue of views.
        served: The live requests by id.
        fail: Called with a request on which the policy failed.

    Attributes:
        is_closed: True if no request is admitted in this step any more.
        before_choice: Called before the policy is asked for the next request: an admission of
            this scan may change its answer.
        num_parked: Requests that wait for an event outside.
        new_reasons: Reasons why requests wait, where one changed since the last step.
    """

    def __init__(
        self, policy: Policy, served: dict[str, VllmRequest], fail: Callable[[Request, str], None]
    ) -> None:
        self._policy = policy
        self._queue = policy.queue
        self._served = served
        self._fail = fail
        self._waiting: dict[str, Request] = {}
        self._aside: dict[str, tuple[str, Ticket]] = {}
        self._by_key: dict[str, dict[str, Request]] = {}
        self._unordered: dict[str, Request] = {}
        self._popped: dict[str, Ticket] = {}
        self._set_aside: dict[str, str] = {}
        self._head: Request | None = None
        self._queued = Expected(self._is_queued, "a request that is queued")
        self.is_closed = False
        self.before_choice: Callable[[], None] = lambda: None
        self.num_parked = 0
        self.num_prompt_tokens = 0
        self.new_reasons: dict[str, str] = {}

    def begin_step(self) -> None:
        """Open the queue for the scan of another step."""
        self.is_closed = False
        self._head = None
        self._popped.clear()

    # -- What vLLM's scheduler calls -----------------------------------------------

    def add_request(self, request: Request) -> None:
        self._enter(request, self._policy.enqueue)

    def prepend_request(self, request: Request) -> None:
        """Queue a preempted request where the policy places it."""
        self._enter(request, self._policy.requeue)

    def peek_request(self) -> Request:
        if self._head is None:
            self.before_choice()
            view = self._policy.head(self._queued)
            self._head = self._earliest() if view is None else self._waiting[view.request_id]
        if self._head is None:
            raise IndexError("peek from an empty queue")
        return self._head

    def pop_request(self) -> Request:
        request = self.peek_request()
        request_id = request.request_id
        if request_id not in self._unordered:
            self._popped[request_id] = self._queue.remove(self._view(request))
        self._leave(request)
        return request

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        """Return requests that a scan skipped to their places, or set them aside."""
        for request in requests:
            self._return(request)

    def remove_request(self, request: Request) -> None:
        request_id = request.request_id
        if request_id in self._aside:
            self._forget_aside(request)
        elif request_id not in self._unordered:
            self._queue.remove(self._view(request))
        self._leave(request)

    def remove_requests(self, requests: Iterable[Request]) -> None:
        for request in requests:
            if request.request_id in self._waiting:
                self.remove_request(request)

    def __bool__(self) -> bool:
        return not self.is_closed and len(self._waiting) > len(self._aside)

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        """Yield all requests: those in order first, and then those that are set aside."""
        for view in self._queue:
            yield self._waiting[view.request_id]
        for request_id in (*self._unordered, *self._aside):
            yield self._waiting[request_id]

    # -- Keys ----------------------------------------------------------------------

    def set_aside(self, request: Request, key: str, *, is_outside: bool) -> None:
        """Have a request set aside until a key, once the scan has skipped it."""
        self._set_aside[request.request_id] = key
        if is_outside:
            self._served[request.request_id].is_aside = True

    def wake(self, key: str) -> int:
        """Return the requests of a key to their places; the number of them."""
        waiting = self._by_key.pop(key, {})
        for request_id, request in waiting.items():
            self._restore(request, self._aside.pop(request_id)[1])
        return len(waiting)

    def wake_all_deferred(self) -> None:
        """Return each request that is deferred until some key."""
        for request_id in list(self._aside):
            if not self._served[request_id].is_aside:
                request = self._waiting[request_id]
                ticket = self._aside[request_id][1]
                self._forget_aside(request)
                self._restore(request, ticket)

    def note_reason(self, request_id: str, reason: str) -> None:
        """Note why a request waits, if that changed."""
        served = self._served[request_id]
        if served.waiting_reason != reason:
            served.waiting_reason = self.new_reasons[request_id] = reason

    def forget(self, view: RequestView) -> None:
        """Drop what the policy's queue remembers of an ended request."""
        self._queue.forget(view)

    def head_view(self) -> RequestView | None:
        """Return the view of the request that is served next; None: no request is queued."""
        return self._view(self.peek_request()) if self else None

    # -- Places --------------------------------------------------------------------

    def _view(self, request: Request) -> RequestView:
        return self._served[request.request_id].view

    def _is_queued(self, view: Any) -> bool:
        request_id = view.request_id
        return request_id in self._waiting and request_id not in self._aside

    def _earliest(self) -> Request | None:
        return next((r for name, r in self._waiting.items() if name not in self._aside), None)

    def _enter(self, request: Request, queue: Callable[[RequestView], None]) -> None:
        self._head = None
        request_id = request.request_id
        self._waiting[request_id] = request
        if request.num_preemptions == 0:
            self.num_prompt_tokens += request.num_prompt_tokens
        try:
            queue(self._view(request))
        except RequestFault as fault:
            self._unordered[request_id] = request  # a place to be ended from
            self._fail(request, fault.detail)

    def _leave(self, request: Request) -> None:
        self._head = None
        self._unordered.pop(request.request_id, None)
        del self._waiting[request.request_id]
        if request.num_preemptions == 0:
            self.num_prompt_tokens -= request.num_prompt_tokens

    def _return(self, request: Request) -> None:
        self._head = None
        request_id = request.request_id
        ticket = self._popped.pop(request_id, None)
        self._waiting[request_id] = request
        if request.num_preemptions == 0:
            self.num_prompt_tokens += request.num_prompt_tokens
        key = self._set_aside.pop(request_id, None)
        if ticket is None:
            self._unordered[request_id] = request
        elif key is None:
            self._queue.restore(self._view(request), ticket)
        else:
            self._aside[request_id] = (key, ticket)
            self._by_key.setdefault(key, {})[request_id] = request
            self.num_parked += self._served[request_id].is_aside

    def _restore(self, request: Request, ticket: Ticket) -> None:
        served = self._served[request.request_id]
        self.num_parked -= served.is_aside
        served.is_aside = False
        self.note_reason(request.request_id, "")
        self._queue.restore(served.view, ticket)
        self._head = None

    def _forget_aside(self, request: Request) -> None:
        """Forget the key of a request that is set aside."""
        key, _ = self._aside.pop(request.request_id)
        others = self._by_key[key]
        del others[request.request_id]
        if not others:
            del self._by_key[key]
        served = self._served[request.request_id]
        self.num_parked -= served.is_aside
        served.is_aside = False
