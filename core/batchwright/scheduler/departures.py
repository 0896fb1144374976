"""How requests leave: they yield, or they end."""

from __future__ import annotations

from batchwright.protocols.kv import DetachCause
from batchwright.request import Finish, Request, RequestStatus
from batchwright.scheduler.draft import Draft
from batchwright.scheduler.faults import RequestFault
from batchwright.scheduler.services import RunningRequests
from batchwright.scheduler.state import State


class Departures:
    """Takes requests out of wherever they are and returns what they held."""

    def __init__(self, state: State) -> None:
        self._state = state

    def finish(self, request: Request, status: RequestStatus, detail: str) -> None:
        """End a live request: at once for its caller, its blocks when nothing uses them."""
        state = self._state
        aborted = status is RequestStatus.FINISHED_ABORTED
        cause: DetachCause = "aborted" if aborted else "finished"
        if request.request_id in state.running:
            self._stop_running(request, cause)
        else:
            state.room.remove(request)
            if request.request_id in state.paused:
                self._give_up_blocks(request, cause)
        request.status = status
        request.finish = finish = Finish(status, detail)
        request.finish_time = state.clock.now()
        state.kv.forget(request.view)
        state.room.forget(request)
        del state.requests[request.request_id]
        state.finished_ids.append(request.request_id)
        state.ended[request.request_id] = finish
        state.has_changed = True
        state.announcer.tell("on_finish", request.view)
        if request.group is not None:
            state.groups.leave(request.group, state.clock.now())

    def heed_ends(self, *, but_planned: bool = False) -> None:
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
            if but_planned and request_id in state.draft.tokens:
                kept.append(wish)
            else:
                self.finish(request, status, detail)
        to_end += kept

    def has_to_end(self, request: Request) -> bool:
        """Tell whether a component has ended a request with ``ctx.end``; it has ended then."""
        if request.finish is None:
            error = RequestStatus.FINISHED_ERROR
            for request_id, status, detail in self._state.to_end:
                if request_id == request.request_id and status is error:
                    self.finish(request, status, detail)
                    break
        return request.finish is not None

    def fail(self, request: Request, fault: RequestFault) -> None:
        """End a request because a component failed on it."""
        self.finish(request, RequestStatus.FINISHED_ERROR, fault.detail)

    def preempt(self, request: Request, cause: str) -> None:
        """Make a running request yield its KV and wait again.

        One that could not come back, since the pool is too small for what it knows by
        now, ends instead: length, kv_capacity.
        """
        state = self._state
        if not state.fits_pool(request.num_tokens):
            self.finish(request, RequestStatus.FINISHED_LENGTH, "kv_capacity")
            return
        lost = request.num_computed_tokens
        kept = self._keep(request)
        self._stop_running(request, "preempted")
        request.high_water = max(request.high_water, lost)
        request.num_computed_tokens = kept
        request.note_preemption()
        state.draft.preempted_ids.append(request.request_id)
        self._wait_preempted(request, cause)
        state.announcer.tell("on_preempt", request.view, cause, lost - kept)

    def pause(self, request: Request) -> None:
        """Make a running request wait with its blocks, until another one needs them.

        For the executor it is one that is not scheduled for a while.
        """
        state = self._state
        self._leave_seat(request)
        state.paused[request.request_id] = request
        self._wait_preempted(request, "paused")
        state.announcer.tell("on_preempt", request.view, "paused", 0)

    def reclaim(self, request: Request) -> None:
        """Take the blocks of a paused request; it will be computed again."""
        state = self._state
        lost = request.num_computed_tokens
        self._give_up_blocks(request, "preempted")
        request.high_water = max(request.high_water, lost)
        request.num_computed_tokens = 0
        request.note_preemption()
        state.draft.preempted_ids.append(request.request_id)
        state.draft.yielded[request.request_id] = request  # not to be admitted by this plan
        state.announcer.tell("on_preempt", request.view, "shortage", lost)

    def reclaim_any(self, but: Request | None = None) -> bool:
        """Take the blocks of the request that paused last, if there is one."""
        for request in reversed(self._state.paused.values()):
            if request is not but:
                self.reclaim(request)
                return True
        return False

    def put_all_back(self) -> None:
        """Let every request wait again, since nothing that was computed is left."""
        state = self._state
        state.draft = Draft()
        while state.fence.flights:
            state.fence.lower(state.fence.flights.popleft().plan.step_id)
        while self.reclaim_any():
            pass  # what paused ones hold is lost as well
        for request in reversed(list(state.running.values())):
            self.preempt(request, "executor")
        for request in list(state.requests.values()):
            request.on_executor = False
            request.num_output_placeholders = 0
            if state.room.where(request) == "landing":
                state.room.landed(request)
                self.wait_again(request)
        state.kv.reset_prefix_cache()

    def victim_for(self, request: Request, among: dict[str, Request] | None = None) -> Request:
        """Return the request that the victim plugin names; the last of them if it names none.

        Args:
            request: Who needs something.
            among: Running requests in order of admission, not none; None: all of them.
        """
        state = self._state
        among = state.running if among is None else among
        running = state.view.running if among is state.running else RunningRequests(among)
        chosen = state.faults.ask(
            state.components.victim,
            "choose",
            (running, request.view, state.view),
            check=lambda view: view is not None and view in running,
            expected="a running request",
        )
        if chosen is None:
            return next(reversed(among.values()))
        return among[chosen.request_id]

    def wait_again(self, request: Request) -> None:
        """Queue a preempted request, once no step in flight will answer it."""
        state = self._state
        if state.fence.last_flight(request) is not None:
            state.room.land(request)
            return
        request.num_output_placeholders = 0
        if not state.fits_pool(request.num_tokens):
            # What was in flight when it yielded has made it outgrow the pool.
            state.room.land(request)  # a place to be ended from
            self.finish(request, RequestStatus.FINISHED_LENGTH, "kv_capacity")
            return
        try:
            state.room.requeue(request)
        except RequestFault as fault:
            state.room.land(request)  # a place to be ended from
            self.fail(request, fault)

    def _keep(self, request: Request) -> int:
        state = self._state
        kept = state.faults.ask(
            state.components.preemption,
            "keep",
            (request.view, state.kv.block_ids(request.view)),
            check=lambda kept: kept == 0,
            expected="0 kept tokens",
        )
        return kept or 0

    def _wait_preempted(self, request: Request, cause: str) -> None:
        request.status = RequestStatus.PREEMPTED
        request.draft_token_ids = []
        request.waiting_reason = f"preempted ({cause})"
        self._state.has_changed = True
        self.wait_again(request)

    def _stop_running(self, request: Request, cause: DetachCause) -> None:
        """Take a running request out of the plan and give back all that it holds."""
        self._leave_seat(request)
        self._give_up_blocks(request, cause)

    def _leave_seat(self, request: Request) -> None:
        state = self._state
        del state.running[request.request_id]
        state.decode_batch.leave(request)
        planned = state.draft.take_out(request)
        if planned and not state.settings.compat.keeps_victims_hashes:
            # What this step was to compute of it will not be computed.
            state.kv.unpublish(request.view, request.num_computed_tokens)
        if state.components.resources:
            self.release_resources(request)

    def _give_up_blocks(self, request: Request, cause: DetachCause) -> None:
        state = self._state
        state.paused.pop(request.request_id, None)
        num_blocks = state.fence.release(request, cause)
        if request.usage is not None:
            request.usage.change_num_blocks(-num_blocks)

    def release_resources(self, request: Request, count: int | None = None) -> None:
        """Give back the first ``count`` reservations of a request (all if None)."""
        state = self._state
        for resource in state.components.resources[:count]:
            state.call_back(resource, "unreserve", request.view)
