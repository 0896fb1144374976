"""The first scan of a step: running requests get what they owe."""

from __future__ import annotations

from operator import attrgetter

from batchwright.protocols.component import overrides
from batchwright.queues import as_sort_key
from batchwright.queues.base import SortKey
from batchwright.request import Request, RequestStatus
from batchwright.request_view import RequestView
from batchwright.scheduler.departures import Departures
from batchwright.scheduler.faults import RequestFault
from batchwright.scheduler.limiting import limited
from batchwright.scheduler.state import State

_view = attrgetter("view")


class RunningScan:
    """Grants running requests ``min(debt, limits, budgets, model length)``.

    If a request gets no blocks, the victim is preempted and the allocation is retried; a
    victim that was planned earlier in the step is taken out of the plan. After a request has
    been preempted for its own sake, the scan ends.
    """

    def __init__(self, state: State, departures: Departures) -> None:
        self._state = state
        self._departures = departures
        self._orders_running = overrides(state.components.policy, "running_key")

    def run(self) -> None:
        """Plan the running requests of this step."""
        state = self._state
        draft = state.draft
        visits = self._visits()
        if state.to_end:
            self._departures.heed_ends(but_planned=True)
        for request in visits:
            if draft.num_tokens_left <= 0:
                break
            if request.status is not RequestStatus.RUNNING:
                continue
            try:
                if not self.serve(request):
                    break
            except RequestFault as fault:
                self._departures.fail(request, fault)
            if state.to_end:
                self._departures.heed_ends(but_planned=True)

    def _visits(self) -> list[Request]:
        """Schedule the decode batch if that is exact; return requests to decide about."""
        state = self._state
        batch, draft = state.decode_batch, state.draft
        others = batch.others()
        if not draft.num_decode_tokens_left:
            return self._ordered(others)
        num_tokens = min(draft.num_tokens_left, draft.num_decode_tokens_left)
        if batch.fits(num_tokens, state.kv.num_free_blocks, others) and not (
            others and self._orders_running and self._may_go_short(others)
        ):
            self._schedule_batch()
            return others
        batch.flush()
        return self._ordered(list(state.running.values()))

    def _may_go_short(self, others: list[Request]) -> bool:
        """Tell whether one of these may get less than it lacks, so that order decides."""
        state, draft = self._state, self._state.draft
        num_batched = len(state.decode_batch)
        num_tokens = min(draft.num_tokens_left, draft.num_prefill_tokens_left)
        free = state.kv.num_free_blocks - len(state.decode_batch.needs_block())
        missing = sum(request.num_new_tokens for request in others)
        # A grant reaches into at most one block more than it fills, before and after.
        slots = missing + len(others) * state.sizes.num_lookahead_tokens
        most_blocks = slots // state.sizes.block_size + 2 * len(others)
        return num_batched + missing > num_tokens or most_blocks > free

    def _schedule_batch(self) -> None:
        """Schedule a token for each request of the batch; give blocks to those that need one."""
        state = self._state
        batch = state.decode_batch
        growing, filling = batch.needs_block(), batch.completes_block()
        state.draft.grant_batch(batch.scheduled_tokens())
        if state.sizes.num_lookahead_tokens:
            for request in dict.fromkeys(growing + filling):
                self._allocate(request, 1)
        elif growing or filling:
            new = state.kv.allocate_decodes([*map(_view, growing)], [*map(_view, filling)])
            tables = state.draft.tables
            for request, block_ids in zip(growing, new, strict=True):
                tables[request.request_id] = block_ids
                if request.usage is not None:
                    request.usage.change_num_blocks(len(block_ids))

    def _ordered(self, requests: list[Request]) -> list[Request]:
        """Sort by the policy's running key, if it has one; who makes it fail is ended."""
        if not self._orders_running:
            return requests
        policy = self._state.components.policy
        keyed = []

        def ask(view: RequestView) -> SortKey:
            return as_sort_key(policy.running_key(view))

        for request in requests:
            try:
                key = self._state.faults.ask_about(request, policy, "running_key", call=ask)
                keyed.append((key, request))
            except RequestFault as fault:
                self._departures.fail(request, fault)
        return [request for _, request in sorted(keyed, key=lambda pair: pair[0])]

    def serve(self, request: Request) -> bool:
        """Grant one request what it can get.

        Returns:
            Whether the scan goes on.
        """
        state = self._state
        self._trim_drafts(request)
        num_new_tokens = request.num_new_tokens
        num_tokens = self._grant(request, num_new_tokens)
        if num_tokens <= 0:
            if num_new_tokens > 1:
                state.draft.unfinished[request.request_id] = request
            return True
        if state.to_end and self._departures.has_to_end(request):
            return True  # before it publishes what it will not compute
        block_ids = self._allocate(request, num_tokens)
        while block_ids is None:
            if state.fence.is_holding:
                # Blocks are on their way back: no request need yield for them.
                state.draft.shortage = True
                return True
            if not self._make_room(request):
                return False
            if request.status.is_finished or (
                state.to_end and self._departures.has_to_end(request)
            ):
                return True
            num_tokens = min(num_tokens, request.num_new_tokens)
            block_ids = self._allocate(request, num_tokens)
        state.draft.grant(request, num_tokens, num_new_tokens)
        self._plan_drafts(request, num_tokens)
        if state.to_end:
            self._departures.has_to_end(request)  # no other request counts on its blocks yet
        return True

    def _grant(self, request: Request, num_new_tokens: int) -> int:
        """Tokens that one request may get; its last token is never computed."""
        state = self._state
        room = request.max_total_tokens - 1 - request.num_computed_tokens
        num_tokens = min(state.draft.running_allowance(num_new_tokens), room)
        return limited(state, request, num_tokens) if num_tokens > 0 else 0

    def _allocate(self, request: Request, num_tokens: int) -> list[int] | None:
        """Get slots for a grant; new blocks go into the plan."""
        state = self._state
        computed = request.num_computed_tokens + num_tokens
        lookahead = state.sizes.num_lookahead_tokens
        block_ids = state.allocate(
            request,
            min(computed + lookahead, state.sizes.max_model_len) if lookahead else computed,
            min(computed, request.num_tokens),
        )
        if block_ids is None and lookahead and not state.fits_pool(computed + lookahead):
            block_ids = state.allocate(request, computed, min(computed, request.num_tokens))
        if block_ids:
            state.draft.tables[request.request_id] = block_ids
            if request.usage is not None:
                request.usage.change_num_blocks(len(block_ids))
        return block_ids

    def _make_room(self, request: Request) -> bool:
        """Make another request yield for one that got no blocks.

        Returns:
            Whether it is worth trying again.
        """
        state = self._state
        if request.draft_token_ids and not state.fits_pool(
            request.num_computed_tokens + request.num_new_tokens
        ):
            request.draft_token_ids = []
            return True
        if not state.fits_pool(request.num_tokens):
            self._departures.finish(request, RequestStatus.FINISHED_LENGTH, "kv_capacity")
            return True
        if self._departures.reclaim_any():
            return True
        state.draft.shortage = True
        victim = self._departures.victim_for(request)
        state.draft.preempted_for[victim.request_id] = request.request_id
        self._departures.preempt(victim, "shortage")
        return victim is not request

    def _trim_drafts(self, request: Request) -> None:
        """Cut drafts to the step's cap."""
        if len(request.draft_token_ids) > self._state.draft.num_draft_tokens:
            del request.draft_token_ids[self._state.draft.num_draft_tokens :]

    def _plan_drafts(self, request: Request, num_tokens: int) -> None:
        """Note which drafts the grant covers; the others are dropped."""
        if not request.draft_token_ids:
            return
        known = request.num_tokens + request.num_output_placeholders
        num_drafts = request.num_computed_tokens + num_tokens - known
        if num_drafts > 0:
            drafts = request.draft_token_ids[:num_drafts]
            self._state.draft.draft_tokens[request.request_id] = drafts
        request.draft_token_ids = []
