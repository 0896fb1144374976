"""Ends of requests, and the return of all that a request holds."""

from __future__ import annotations

from attrs import define

from batchwright.callers.guard import RequestFault
from batchwright.callers.kv import BlockPool
from batchwright.callers.resources import Resources
from batchwright.protocols.kv import DetachCause
from batchwright.request import Finish, Request, RequestStatus
from batchwright.scheduler.state import State


@define(eq=False, slots=False)
class Ending:
    """Ends requests, wherever they are.

    Args:
        state: The requests, by place.
        blocks: The pool.
        resources: Released when a request leaves its seat.
    """

    _state: State
    _blocks: BlockPool
    _resources: Resources

    def finish(self, request: Request, status: RequestStatus, detail: str) -> None:
        """End a live request: at once for its caller, its blocks when nothing uses them."""
        state = self._state
        aborted = status is RequestStatus.FINISHED_ABORTED
        cause: DetachCause = "aborted" if aborted else "finished"
        if request.request_id in state.running:
            self.leave_seat(request)
            self.give_up_blocks(request, cause)
        else:
            state.waiting.remove(request)
            if request.request_id in state.paused:
                self.give_up_blocks(request, cause)
        request.status = status
        request.finish = finish = Finish(status, detail)
        request.finish_time = state.clock.now()
        self._blocks.kv.forget(request.view)
        state.waiting.forget(request)
        del state.requests[request.request_id]
        state.finished_ids.append(request.request_id)
        state.ended[request.request_id] = finish
        state.has_changed = True
        state.events.on_finish(request.view)
        if request.group is not None:
            state.groups.leave(request.group, state.clock.now())

    def fail(self, request: Request, fault: RequestFault) -> None:
        """End a request because a component failed on it."""
        self.finish(request, RequestStatus.FINISHED_ERROR, fault.detail)

    def end_requested(self, *, but_planned: bool = False) -> None:
        """End the requests that components, or callers, wanted to end meanwhile.

        Args:
            but_planned: Whether those that are in the plan being made stay until it is done:
                others may count on what they compute.
        """
        state = self._state
        to_end, kept = state.to_end, []
        while to_end:
            wish = request_id, status, detail = to_end.pop(0)
            request = state.requests.get(request_id)
            if request is None:
                continue
            if but_planned and request_id in state.step.tokens:
                kept.append(wish)
            else:
                self.finish(request, status, detail)
        to_end += kept

    def has_to_end(self, request: Request) -> bool:
        """Tell whether a component has ended a request with ``ctx.end``; it has ended then."""
        if request.finish is None and self._state.to_end:
            error = RequestStatus.FINISHED_ERROR
            for request_id, status, detail in self._state.to_end:
                if request_id == request.request_id and status is error:
                    self.finish(request, status, detail)
                    break
        return request.finish is not None

    def leave_seat(self, request: Request) -> None:
        """Take a running request out of the plan and out of those that run."""
        state = self._state
        del state.running[request.request_id]
        state.decode_batch.leave(request)
        was_planned = state.step.take_out(request)
        if was_planned and not state.compat.keeps_victims_hashes:
            # What this step was to compute of it will not be computed.
            self._blocks.kv.unpublish(request.view, request.num_computed_tokens)
        if self._resources:
            self.release_resources(request)

    def give_up_blocks(self, request: Request, cause: DetachCause) -> None:
        """Return the blocks of a request that does not run to the pool."""
        state = self._state
        state.paused.pop(request.request_id, None)
        num_blocks = state.in_flight.free_when_done(request, cause)
        if request.usage is not None:
            request.usage.change_num_blocks(-num_blocks)

    def release_resources(self, request: Request) -> None:
        """Release all that a request has reserved."""
        if self._resources:
            self._state.has_changed = True
            self._resources.unreserve(request.view)
