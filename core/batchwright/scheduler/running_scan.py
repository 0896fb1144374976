"""The first scan of a step: running requests get the tokens that they have to compute."""

from __future__ import annotations

from operator import attrgetter

from attrs import define

from batchwright.callers.guard import RequestFault
from batchwright.decode_batch import BatchTokens
from batchwright.request import Request, RequestStatus
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress

_view = attrgetter("view")


@define(eq=False, slots=False)
class RunningScan:
    """Schedules ``min(new tokens, limits, budgets, model length)`` of running requests.

    If a request gets no blocks, the victim is preempted and the allocation is retried; a
    victim that was planned earlier in the step is taken out of the plan. After a request has
    been preempted for its own sake, the scan ends.

    Args:
        state: The requests, by place.
        preemption: Preempts requests if blocks run out.
        ending: Ends requests.
    """

    _state: State
    _preemption: Preemption
    _ending: Ending

    def run(self, step: StepInProgress) -> None:
        """Plan the running requests of this step."""
        state = self._state
        visits = self._visits(step)
        if state.to_end:
            self._ending.end_requested(but_planned=True)
        for request in visits:
            if step.num_tokens_left <= 0:
                break
            if request.status is not RequestStatus.RUNNING:
                continue
            if not self.schedule(request, step):
                break
            if state.to_end:
                self._ending.end_requested(but_planned=True)

    def _visits(self, step: StepInProgress) -> list[Request]:
        """Schedule the decode batch if that is exact; return requests to decide about."""
        state = self._state
        batch = state.decode_batch
        others = batch.others()
        if not step.num_decode_tokens_left:
            return self._in_order(others)
        num_tokens = min(step.num_tokens_left, step.num_decode_tokens_left)
        tokens = batch.schedule(num_tokens, state.kv.num_free_blocks, others)
        if tokens is None or (
            others and state.policy.orders_running and self._may_go_short(others, tokens, step)
        ):
            running = list(state.running.values())
            batch.leave(*running)
            return self._in_order(running)
        self._take_batch(tokens, step)
        return others

    def _may_go_short(
        self, others: list[Request], batch: BatchTokens, step: StepInProgress
    ) -> bool:
        """Tell whether one of these may get less than it lacks, so that order decides."""
        state = self._state
        num_tokens = min(step.num_tokens_left, step.num_prefill_tokens_left)
        free = state.kv.num_free_blocks - len(batch.growing)
        missing = sum(request.num_new_tokens for request in others)
        # Scheduled tokens reach into at most one block more than they fill, before and after.
        slots = missing + len(others) * state.sizes.num_lookahead_tokens
        most_blocks = slots // state.sizes.block_size + 2 * len(others)
        return len(batch.by_id) + missing > num_tokens or most_blocks > free

    def _take_batch(self, batch: BatchTokens, step: StepInProgress) -> None:
        """Take the tokens of the decode batch into the plan; give blocks for them."""
        state = self._state
        growing, filling = batch.growing, batch.filling
        step.schedule_batch(batch.by_id)
        if state.sizes.num_lookahead_tokens:
            for request in dict.fromkeys((*growing, *filling)):
                self._allocate(request, 1, step)
        elif growing or filling:
            new = state.kv.allocate_decodes([*map(_view, growing)], [*map(_view, filling)])
            for request, block_ids in zip(growing, new, strict=True):
                step.add_blocks(request, block_ids)

    def _in_order(self, requests: list[Request]) -> list[Request]:
        """Put requests in the policy's order; one that makes it fail is ended."""
        order = self._state.policy.running_order(requests)
        for request, fault in order.failed:
            self._ending.fail(request, fault)
        return order.requests

    def schedule(self, request: Request, step: StepInProgress) -> bool:
        """Schedule the tokens that one request can get.

        Returns:
            Whether the scan goes on.
        """
        if len(request.draft_token_ids) > step.num_draft_tokens:
            del request.draft_token_ids[step.num_draft_tokens :]
        num_new_tokens = request.num_new_tokens
        try:
            num_tokens = self._num_tokens(request, num_new_tokens, step)
        except RequestFault as fault:
            self._ending.fail(request, fault)
            return True
        if num_tokens <= 0:
            if num_new_tokens > 1:
                step.unfinished[request.request_id] = request
            return True
        to_end = self._state.to_end
        if to_end and self._ending.has_to_end(request):
            return True  # before it publishes what it will not compute
        while not self._allocate(request, num_tokens, step):
            if self._state.in_flight.defers_frees:
                # Blocks are on their way back: no request need yield for them.
                step.shortage = True
                return True
            if not self._make_room(request, step):
                return False
            if self._ending.has_to_end(request):
                return True
            num_tokens = min(num_tokens, request.num_new_tokens)
        step.schedule(request, num_tokens, num_new_tokens)
        self._plan_drafts(request, num_tokens, step)
        if to_end:
            self._ending.has_to_end(request)  # no other request counts on its blocks yet
        return True

    def _num_tokens(self, request: Request, num_new_tokens: int, step: StepInProgress) -> int:
        """Return the tokens that one request may get; its last token is never computed."""
        room = request.max_total_tokens - 1 - request.num_computed_tokens
        num_tokens = min(step.running_allowance(num_new_tokens), room)
        if num_tokens <= 0 or step.bypass.limits:
            return num_tokens
        return self._state.limits.cut(request.view, num_tokens, self._state.view)

    def _allocate(self, request: Request, num_tokens: int, step: StepInProgress) -> bool:
        """Get slots for scheduled tokens; new blocks go into the plan.

        Returns:
            Whether there were enough.
        """
        block_ids = self._state.blocks.extend(request, request.num_computed_tokens + num_tokens)
        if block_ids:
            step.add_blocks(request, block_ids)
        return block_ids is not None

    def _make_room(self, request: Request, step: StepInProgress) -> bool:
        """Take blocks from another request for one that got none.

        Returns:
            Whether it is worth trying again.
        """
        blocks = self._state.blocks
        if request.draft_token_ids and not blocks.fits(
            request.num_computed_tokens + request.num_new_tokens
        ):
            request.draft_token_ids = []
            return True
        if not blocks.fits(request.num_tokens):
            self._ending.finish(request, RequestStatus.FINISHED_LENGTH, "kv_capacity")
            return True
        if self._preemption.reclaim_last():
            return True
        step.shortage = True
        victim = self._preemption.victim_for(request)
        step.preempted_for[victim.request_id] = request.request_id
        self._preemption.preempt(victim, "shortage")
        return victim is not request

    def _plan_drafts(self, request: Request, num_tokens: int, step: StepInProgress) -> None:
        """Note which drafts the scheduled tokens cover; the others are dropped."""
        if not request.draft_token_ids:
            return
        known = request.num_tokens + request.num_output_placeholders
        num_drafts = request.num_computed_tokens + num_tokens - known
        if num_drafts > 0:
            step.draft_tokens[request.request_id] = request.draft_token_ids[:num_drafts]
        request.draft_token_ids = []
